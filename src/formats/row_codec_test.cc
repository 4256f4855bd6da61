#include "formats/row_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

// The rules of each format, against searches over every code that share nothing with the encoder.

namespace haypile {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kFloatMax = std::numeric_limits<float>::max();
constexpr int kHeadDim = 64;

struct Row {
  std::vector<uint16_t> codes = std::vector<uint16_t>(kHeadDim, 0xdead);
  std::vector<uint32_t> scales = std::vector<uint32_t>(kHeadDim, 0xdeadbeef);
  std::vector<float> values = std::vector<float>(kHeadDim);
};

Row RoundTrip(KvFormat format, const std::vector<float>& values, float global_scale) {
  Row row;
  EncodeRow(format, values, global_scale, {row.codes, row.scales});
  DecodeRow(format, row.codes, row.scales, global_scale, row.values);
  return row;
}

std::vector<float> RandomValues(std::mt19937& generator, float scale) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(kHeadDim);
  for (float& value : values) value = normal(generator);
  return values;
}

float AbsMax(const float* values, int count) {
  float amax = 0;
  for (int i = 0; i < count; ++i) amax = std::max(amax, std::abs(values[i]));
  return amax;
}

int CodeCount(KvFormat format) { return 1 << InfoOf(format).element_bits; }

// Distance from `value` to the nearest finite element times `step`.
double NearestError(KvFormat format, float value, double step) {
  double best = kInf;
  for (int code = 0; code < CodeCount(format); ++code) {
    const float element = ElementValue(format, static_cast<uint16_t>(code));
    // int8 formats do not use -128, so that their range is symmetric.
    if (!std::isfinite(element) || element == -128.0f) continue;
    best = std::min(best, std::abs(value - element * step));
  }
  return best;
}

double BlockStep(KvFormat format, const Row& row, int dim, float global_scale) {
  const KvFormatInfo& info = InfoOf(format);
  double step = info.has_global_scale ? global_scale : 1.0;
  if (info.block_scale == BlockScale::kNone) return step;
  const int block = info.block_elements == 0 ? 0 : dim / info.block_elements;
  return step * BlockScaleValue(info.block_scale, row.scales[static_cast<size_t>(block)]);
}

// 6 and the rest of E2M1, searched by value.
double E2m1Error(const float* values, int count, double step) {
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    const double error = NearestError(KvFormat::kMxfp4, values[i], step);
    sum += error * error;
  }
  return sum;
}

// The E4M3 value nearest to `wanted`; the even code of a tie.
double NearestE4m3(double wanted) {
  double best = 0;
  for (int code = 0; code < 0x7f; ++code) {
    const double value = BlockScaleValue(BlockScale::kE4m3, static_cast<uint32_t>(code));
    const double closer = std::abs(best - wanted) - std::abs(value - wanted);
    if (closer > 0 || (closer == 0 && code % 2 == 0)) best = value;
  }
  return best;
}

TEST(RowCodecTest, EveryElementIsTheNearestOneUnderItsScale) {
  std::mt19937 generator(1);
  for (const KvFormatInfo& info : AllKvFormats()) {
    if (info.block_scale == BlockScale::kFp16) continue;  // their elements are made with the scale before rounding
    const int rows = info.element_bits == 16 ? 1 : 20;
    for (const float scale : {1e-3f, 1.0f, 300.0f}) {
      for (const float global_scale : {1.0f, 0.0625f, 0.037f}) {
        for (int i = 0; i < rows; ++i) {
          const std::vector<float> values = RandomValues(generator, scale);
          const Row row = RoundTrip(info.format, values, global_scale);
          for (int dim = 0; dim < kHeadDim; ++dim) {
            const double step = BlockStep(info.format, row, dim, global_scale);
            const double best = NearestError(info.format, values[dim], step);
            // Products and the quotient round to float: 3 * 2^-24 of the value.
            ASSERT_LE(std::abs(static_cast<double>(values[dim]) - row.values[dim]),
                      best + 0x1p-22 * std::abs(values[dim]))
                << info.name << " value " << values[dim] << " scale " << scale << " global " << global_scale;
          }
        }
      }
    }
  }
}

TEST(RowCodecTest, FindsEverySpecialFp8Code) {
  for (const KvFormatInfo& info : AllKvFormats()) {
    const bool fp8 =
        info.format == KvFormat::kFp8E4m3 || info.format == KvFormat::kFp8E4m3Fnuz || info.format == KvFormat::kFp8E5m2;
    for (int code = 0; code < (info.element_bits == 4 ? 16 : 256); ++code) {
      std::vector<uint16_t> codes(16, 0);
      codes[11] = static_cast<uint16_t>(code);
      EXPECT_EQ(AnySpecialFp8Code(info.format, codes), fp8 && !std::isfinite(ElementValue(info.format, codes[11])))
          << info.name << " " << code;
    }
  }
}

TEST(RowCodecTest, TiesGoToTheEvenCode) {
  std::vector<float> values(kHeadDim, 0.0f);
  values[0] = 6.0f;
  const float inputs[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, -0.25f, -2.5f};
  const float outputs[] = {0.0f, 1.0f, 1.0f, 2.0f, 2.0f, 4.0f, 4.0f, -0.0f, -2.0f};
  std::copy(std::begin(inputs), std::end(inputs), values.begin() + 1);
  for (const KvFormat format : {KvFormat::kNvfp4, KvFormat::kMxfp4}) {
    const Row row = RoundTrip(format, values, 1.0f);
    for (size_t i = 0; i < std::size(inputs); ++i) EXPECT_EQ(row.values[i + 1], outputs[i]) << inputs[i];
  }
  values.assign(kHeadDim, 0.0f);
  const float integers[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f};
  const float rounded[] = {127.0f, 0.0f, 2.0f, 2.0f, 0.0f, -2.0f, -2.0f, 126.0f};
  std::copy(std::begin(integers), std::end(integers), values.begin());
  const Row row = RoundTrip(KvFormat::kInt8PerTokenHead, values, 1.0f);
  for (size_t i = 0; i < std::size(integers); ++i) EXPECT_EQ(row.values[i], rounded[i]) << integers[i];
}

TEST(RowCodecTest, Nvfp4ScaleIsTheE4m3NearestToAmaxOverSix) {
  std::mt19937 generator(2);
  // From scales that are subnormal or zero in E4M3 to scales that saturate.
  for (float scale = 1e-4f; scale < 1e5f; scale *= 1.7f) {
    for (const float global_scale : {1.0f, 0.125f, 0.3f}) {
      const std::vector<float> values = RandomValues(generator, scale);
      const Row row = RoundTrip(KvFormat::kNvfp4, values, global_scale);
      for (int block = 0; block < kHeadDim / 16; ++block) {
        const double wanted = AbsMax(values.data() + 16 * block, 16) / (6.0 * global_scale);
        const double stored = BlockScaleValue(BlockScale::kE4m3, row.scales[static_cast<size_t>(block)]);
        const double nearest = NearestE4m3(wanted);
        EXPECT_NEAR(std::abs(stored - wanted), std::abs(nearest - wanted), 1e-6 * wanted) << wanted;
      }
    }
  }
}

TEST(RowCodecTest, FourOverSixKeepsTheCandidateOfLowerError) {
  std::mt19937 generator(3);
  int fours = 0;
  int sixes = 0;
  for (float scale = 1e-3f; scale < 1e4f; scale *= 1.3f) {
    for (const float global_scale : {1.0f, 0.3f}) {
      const std::vector<float> values = RandomValues(generator, scale);
      const Row row = RoundTrip(KvFormat::kNvfp4FourOverSix, values, global_scale);
      for (int block = 0; block < kHeadDim / 16; ++block) {
        const float* in = values.data() + 16 * block;
        const double amax = AbsMax(in, 16);
        const double six = NearestE4m3(amax / (6.0 * global_scale));
        const double four = NearestE4m3(amax / (4.0 * global_scale));
        const double six_error = E2m1Error(in, 16, six * global_scale);
        const double four_error = E2m1Error(in, 16, four * global_scale);
        const double stored = BlockScaleValue(BlockScale::kE4m3, row.scales[static_cast<size_t>(block)]);
        if (std::abs(six_error - four_error) < 1e-5 * six_error) {
          EXPECT_TRUE(stored == six || stored == four);
          continue;
        }
        EXPECT_EQ(stored, four_error < six_error ? four : six) << six_error << " " << four_error;
        ++(four_error < six_error ? fours : sixes);
      }
    }
  }
  EXPECT_GT(fours, 50);
  EXPECT_GT(sixes, 50);
}

TEST(RowCodecTest, FourOverSixKeepsSixOnATie) {
  // Both candidates are exact: 12 = 6 * 2 = 4 * 3, 6 = 3 * 2 = 2 * 3.
  std::vector<float> values(kHeadDim, 0.0f);
  values[0] = 12.0f;
  values[1] = -6.0f;
  const Row row = RoundTrip(KvFormat::kNvfp4FourOverSix, values, 1.0f);
  EXPECT_EQ(BlockScaleValue(BlockScale::kE4m3, row.scales[0]), 2.0f);
  EXPECT_EQ(row.values[0], 12.0f);
  EXPECT_EQ(row.values[1], -6.0f);
}

TEST(RowCodecTest, Mxfp4ScaleIsThePowerOfTwoOfTheOcpRule) {
  std::mt19937 generator(4);
  for (int exponent = -140; exponent <= 120; exponent += 5) {
    std::vector<float> values = RandomValues(generator, 1.0f);
    for (float& value : values) value = std::ldexp(value, exponent);
    const Row row = RoundTrip(KvFormat::kMxfp4, values, 1.0f);
    for (int block = 0; block < kHeadDim / 32; ++block) {
      const int power = std::max(std::ilogb(AbsMax(values.data() + 32 * block, 32)) - 2, -127);
      EXPECT_EQ(BlockScaleValue(BlockScale::kE8m0, row.scales[static_cast<size_t>(block)]), std::ldexp(1.0f, power));
    }
  }
}

TEST(RowCodecTest, Int8ScaleIsAmaxOver127) {
  std::vector<float> values(kHeadDim, 0.25f);
  values[5] = -3.0f;
  const Row row = RoundTrip(KvFormat::kInt8PerTokenHead, values, 1.0f);
  EXPECT_EQ(std::bit_cast<float>(row.scales[0]), 3.0f / 127.0f);
  EXPECT_EQ(row.codes[5], 0x81);  // -127
  EXPECT_EQ(row.codes[0], 11);    // 0.25 * 127 / 3 = 10.58
}

TEST(RowCodecTest, Fp8DividesByTheGlobalScale) {
  std::vector<float> values(kHeadDim, 0.0f);
  values[0] = 3.0f;
  values[1] = 10000.0f;
  const Row row = RoundTrip(KvFormat::kFp8E4m3, values, 2.0f);
  EXPECT_EQ(row.codes[0], 0x3c);  // 1.5
  EXPECT_EQ(row.values[0], 3.0f);
  EXPECT_EQ(row.values[1], 896.0f);
}

// ---- llama.cpp's formats, bytes worked out by hand ----

TEST(RowCodecTest, Q8_0RoundsHalvesAwayFromZero) {
  std::vector<float> values(kHeadDim, 0.0f);
  const float in[] = {127.0f, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 126.5f, 0.49999997f, -126.4f};
  const int8_t out[] = {127, 1, -1, 2, 3, -3, 127, 0, -126};
  std::copy(std::begin(in), std::end(in), values.begin());
  const Row row = RoundTrip(KvFormat::kQ8_0, values, 1.0f);
  EXPECT_EQ(row.scales[0], 0x3c00u);  // 1
  EXPECT_EQ(row.scales[1], 0u);       // a block of zeros
  for (size_t i = 0; i < std::size(in); ++i) EXPECT_EQ(static_cast<int8_t>(row.codes[i]), out[i]) << in[i];
}

TEST(RowCodecTest, Q8_0MakesElementsWithTheScaleBeforeItIsRounded) {
  // d = 1/127 = 2^-7 * 1.0078740, of which FP16 keeps 2^-7 * (1 + 8/1024), a little less. 0.99602 / d = 126.4945 rounds
  // to 126; by the stored scale it would be 126.5024 and round to 127.
  std::vector<float> values(kHeadDim, 0.0f);
  values[0] = -1.0f;
  values[1] = 0.99602f;
  const Row row = RoundTrip(KvFormat::kQ8_0, values, 1.0f);
  EXPECT_EQ(row.scales[0], 0x2008u);
  EXPECT_EQ(static_cast<int8_t>(row.codes[0]), -127);
  EXPECT_EQ(static_cast<int8_t>(row.codes[1]), 126);
  EXPECT_EQ(row.values[1], 126 * 0x1p-7f * (1.0f + 8.0f / 1024));
}

TEST(RowCodecTest, Q4_0PutsTheSignedMaximumOnCodeZero) {
  std::vector<float> values(kHeadDim, 0.0f);
  const float in[] = {-8.0f, 7.0f, 7.9f, 0.5f, 0.4f, -0.5f, -0.6f, -7.6f, 0.0f};
  const uint16_t out[] = {0, 15, 15, 9, 8, 8, 7, 0, 8};
  std::copy(std::begin(in), std::end(in), values.begin());
  // The second block's maximum is positive, so its scale is negative.
  const float in_positive[] = {4.0f, -3.5f, -4.0f, 1.0f, -1.0f};
  const uint16_t out_positive[] = {0, 15, 15, 6, 10};
  std::copy(std::begin(in_positive), std::end(in_positive), values.begin() + 32);
  const Row row = RoundTrip(KvFormat::kQ4_0, values, 1.0f);
  EXPECT_EQ(row.scales[0], 0x3c00u);  // 1
  EXPECT_EQ(row.scales[1], 0xb800u);  // -0.5
  for (size_t i = 0; i < std::size(in); ++i) EXPECT_EQ(row.codes[i], out[i]) << in[i];
  for (size_t i = 0; i < std::size(in_positive); ++i) EXPECT_EQ(row.codes[32 + i], out_positive[i]) << in_positive[i];
  EXPECT_EQ(row.values[32], 4.0f);
  EXPECT_EQ(row.values[33], -3.5f);
}

TEST(RowCodecTest, Q4_0TakesTheFirstOfEqualMaxima) {
  std::vector<float> values(kHeadDim, 0.0f);
  values[3] = 8.0f;
  values[4] = -8.0f;
  values[40] = -8.0f;
  values[41] = 8.0f;
  const Row row = RoundTrip(KvFormat::kQ4_0, values, 1.0f);
  EXPECT_EQ(row.scales[0], 0xbc00u);  // -1
  EXPECT_EQ(row.scales[1], 0x3c00u);  // 1
  EXPECT_EQ(row.values[3], 8.0f);
  EXPECT_EQ(row.values[4], -7.0f);
}

TEST(RowCodecTest, Q8_0AndQ4_0ScalesAndElementsOnRandomRows) {
  std::mt19937 generator(5);
  for (float scale = 1e-2f; scale < 1e4f; scale *= 3.1f) {
    const std::vector<float> values = RandomValues(generator, scale);
    for (const KvFormat format : {KvFormat::kQ8_0, KvFormat::kQ4_0}) {
      const Row row = RoundTrip(format, values, 1.0f);
      for (int dim = 0; dim < kHeadDim; ++dim) {
        const float* block = values.data() + dim / 32 * 32;
        const float amax = AbsMax(block, 32);
        double d = amax / 127.0;
        if (format == KvFormat::kQ4_0) d = (std::find(block, block + 32, amax) != block + 32 ? amax : -amax) / -8.0;
        const double stored = BlockScaleValue(BlockScale::kFp16, row.scales[static_cast<size_t>(dim / 32)]);
        ASSERT_NEAR(stored, d, std::abs(d) * 0x1p-11);
        // Half a step; a whole one where q4_0's range ends at +7.
        const double element = ElementValue(format, row.codes[static_cast<size_t>(dim)]);
        const double allowed = format == KvFormat::kQ4_0 && element == 7 ? 1.0 : 0.5;
        ASSERT_LE(std::abs(values[static_cast<size_t>(dim)] / d - element), allowed + 1e-4) << InfoOf(format).name;
      }
    }
  }
}

// ---- values at the edges, for every format ----

TEST(RowCodecTest, NanStaysNanInItsElementOrBlock) {
  for (const KvFormatInfo& info : AllKvFormats()) {
    for (const float nan : {kNan, -kNan}) {
      std::vector<float> values(kHeadDim, 1.0f);
      values[37] = nan;
      const Row row = RoundTrip(info.format, values, 1.0f);
      int block = info.block_elements;
      if (info.block_scale == BlockScale::kNone) block = 1;
      if (info.block_scale == BlockScale::kFp32) block = kHeadDim;
      for (int dim = 0; dim < kHeadDim; ++dim) {
        EXPECT_EQ(std::isnan(row.values[static_cast<size_t>(dim)]), dim / block == 37 / block) << info.name << dim;
      }
    }
  }
  std::vector<float> values(kHeadDim, kNan);
  EXPECT_EQ(RoundTrip(KvFormat::kNvfp4, values, 1.0f).scales[0], 0x7fu);
  EXPECT_EQ(RoundTrip(KvFormat::kNvfp4FourOverSix, values, 1.0f).scales[1], 0x7fu);
  EXPECT_EQ(RoundTrip(KvFormat::kMxfp4, values, 1.0f).scales[0], 0xffu);
  EXPECT_EQ(RoundTrip(KvFormat::kQ8_0, values, 1.0f).scales[0], 0x7e00u);
  EXPECT_EQ(RoundTrip(KvFormat::kQ4_0, values, 1.0f).scales[1], 0x7e00u);
  EXPECT_EQ(RoundTrip(KvFormat::kInt8PerTokenHead, values, 1.0f).scales[0], 0x7fc00000u);
}

TEST(RowCodecTest, InfinityAndHugeValuesSaturateToFiniteValuesOfTheirSign) {
  for (const KvFormatInfo& info : AllKvFormats()) {
    for (const float huge : {kInf, kFloatMax, 1e38f, 1e20f}) {
      for (const float global_scale : {1.0f, kSmallestGlobalScale, kLargestGlobalScale, 0.01f}) {
        if (info.has_global_scale && global_scale == kLargestGlobalScale && huge < 1e35f) continue;  // rounds to zero
        std::vector<float> values(kHeadDim, 0.5f);
        values[0] = huge;
        values[33] = -huge;
        const Row row = RoundTrip(info.format, values, global_scale);
        for (const float value : row.values) EXPECT_TRUE(std::isfinite(value)) << info.name << " " << huge;
        EXPECT_GT(row.values[0], 0.0f) << info.name << " " << huge << " global " << global_scale;
        EXPECT_LT(row.values[33], 0.0f) << info.name << " " << huge << " global " << global_scale;
      }
    }
  }
}

TEST(RowCodecTest, AllFloatsNearTheTopOfTheRangeDecodeToFiniteValues) {
  std::mt19937 generator(6);
  std::uniform_real_distribution<float> fraction(0.5f, 1.0f);
  for (const KvFormatInfo& info : AllKvFormats()) {
    for (int i = 0; i < 200; ++i) {
      std::vector<float> values(kHeadDim);
      for (float& value : values) value = kFloatMax * fraction(generator) * (i % 2 == 0 ? 1.0f : -1.0f);
      const float global_scale = i % 3 == 0 ? kLargestGlobalScale : 1.0f;
      for (const float value : RoundTrip(info.format, values, global_scale).values) {
        ASSERT_TRUE(std::isfinite(value)) << info.name;
      }
    }
  }
}

TEST(RowCodecTest, ZerosStayZero) {
  for (const KvFormatInfo& info : AllKvFormats()) {
    for (const float zero : {0.0f, -0.0f}) {
      for (const float global_scale : {1.0f, kSmallestGlobalScale, kLargestGlobalScale}) {
        for (const float value : RoundTrip(info.format, std::vector<float>(kHeadDim, zero), global_scale).values) {
          EXPECT_EQ(value, 0.0f) << info.name;
        }
      }
    }
  }
}

TEST(RowCodecTest, SubnormalAndTinyValuesNeverGrow) {
  for (const KvFormatInfo& info : AllKvFormats()) {
    for (float tiny = std::numeric_limits<float>::denorm_min(); tiny < 1e-30f; tiny *= 3) {
      std::vector<float> values(kHeadDim, tiny);
      values[1] = -tiny;
      values[2] = tiny / 3;
      const Row row = RoundTrip(info.format, values, kSmallestGlobalScale);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_TRUE(std::isfinite(row.values[i])) << info.name << " " << tiny;
        ASSERT_LE(std::abs(row.values[i]), 2 * std::abs(tiny)) << info.name << " " << tiny;
        ASSERT_GE(row.values[i] * values[i], 0.0f) << info.name << " " << tiny;
      }
    }
  }
}

TEST(RowCodecTest, ABlockWhoseScaleIsZeroHasTheCodesOfZero) {
  // Smaller than any scale can hold, and zero itself, side by side.
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  std::vector<float> values(kHeadDim, kTiny);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = i % 2 == 0 ? 0.0f : -kTiny;
  for (const KvFormat format :
       {KvFormat::kNvfp4, KvFormat::kNvfp4FourOverSix, KvFormat::kInt8PerTokenHead, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
    const Row row = RoundTrip(format, values, 1.0f);
    const uint16_t zero = format == KvFormat::kQ4_0 ? 8 : 0;
    EXPECT_EQ(row.scales[0] & 0x7fffu, 0u) << InfoOf(format).name;
    for (const uint16_t code : row.codes) EXPECT_EQ(code, zero) << InfoOf(format).name;
  }
}

TEST(RowCodecTest, Fp16ScalesSaturateOnlyWhereFp16Overflows) {
  // d = 65510 still rounds to FP16's 65504, and elements are made with 65510 as llama.cpp makes them: 126.495 -> 126.
  // d = 65530 overflows: elements are made with 65504, and 126.495 * 65530 / 65504 = 126.545 -> 127.
  for (const float d : {65510.0f, 65530.0f}) {
    std::vector<float> values(kHeadDim, 0.0f);
    values[0] = 127.0f * d;
    values[1] = 126.495f * d;
    const Row row = RoundTrip(KvFormat::kQ8_0, values, 1.0f);
    EXPECT_EQ(row.scales[0], 0x7bffu);
    EXPECT_EQ(row.codes[0], 127);
    EXPECT_EQ(row.codes[1], d < 65520.0f ? 126 : 127);
  }
}

TEST(RowCodecTest, UnusableGlobalScaleGivesNanNotNumbers) {
  const std::vector<float> values(kHeadDim, 1.0f);
  for (const KvFormatInfo& info : AllKvFormats()) {
    for (const float scale : {0.0f, -1.0f, kNan, kInf, 1e-40f, 1e31f}) {
      EXPECT_FALSE(IsUsableGlobalScale(scale));
      for (const float value : RoundTrip(info.format, values, scale).values) {
        EXPECT_EQ(std::isnan(value), info.has_global_scale) << info.name << " " << scale;
      }
    }
  }
}

TEST(RowCodecTest, DecodedValueIsElementTimesScales) {
  std::mt19937 generator(7);
  for (const KvFormatInfo& info : AllKvFormats()) {
    const float global_scale = info.has_global_scale ? 0.037f : 1.0f;
    const Row row = RoundTrip(info.format, RandomValues(generator, 2.0f), global_scale);
    for (size_t dim = 0; dim < kHeadDim; ++dim) {
      const int block = info.block_elements == 0 ? 0 : static_cast<int>(dim) / info.block_elements;
      const float scale = BlockScaleValue(info.block_scale, row.scales[static_cast<size_t>(block)]) * global_scale;
      EXPECT_EQ(row.values[dim], ElementValue(info.format, row.codes[dim]) * scale) << info.name;
    }
  }
}

TEST(RowCodecTest, WritesItsCodesAndScalesAndNothingMore) {
  const std::vector<float> values(32, 1.0f);
  for (const KvFormatInfo& info : AllKvFormats()) {
    Row row;
    EncodeRow(info.format, values, 1.0f, {row.codes, row.scales});
    const size_t scales = static_cast<size_t>(BlockScalesPerHead(info, 32));
    for (size_t i = 0; i < row.codes.size(); ++i) EXPECT_EQ(row.codes[i] == 0xdead, i >= 32) << info.name;
    for (size_t i = 0; i < row.scales.size(); ++i) EXPECT_EQ(row.scales[i] == 0xdeadbeef, i >= scales) << info.name;
    const uint32_t limit = info.block_scale_bytes == 4 ? ~0u : (1u << 8 * info.block_scale_bytes) - 1;
    for (size_t i = 0; i < scales; ++i) EXPECT_LE(row.scales[i], limit) << info.name;
    for (size_t i = 0; i < 32; ++i) EXPECT_LT(row.codes[i], 1u << info.element_bits) << info.name;
  }
}

TEST(RowCodecTest, CalibratedGlobalScalePutsAmaxOnTheLargestValue) {
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kFp8E4m3, 896.0f), 2.0f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kFp8E4m3Fnuz, 240.0f), 1.0f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kFp8E5m2, 28672.0f), 0.5f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kNvfp4, 2688.0f), 1.0f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kNvfp4FourOverSix, 1536.0f), 1.0f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kBf16, 5.0f), 1.0f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kNvfp4, 0.0f), 1.0f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kNvfp4, kInf), 1.0f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kNvfp4, kNan), 1.0f);
  EXPECT_EQ(GlobalScaleForAmax(KvFormat::kNvfp4, 1e-38f), kSmallestGlobalScale);
  std::vector<float> values(kHeadDim, 0.1f);
  values[9] = -17.3f;
  for (const KvFormat format : {KvFormat::kFp8E4m3, KvFormat::kFp8E4m3Fnuz, KvFormat::kFp8E5m2, KvFormat::kNvfp4,
                                KvFormat::kNvfp4FourOverSix}) {
    const Row row = RoundTrip(format, values, GlobalScaleForAmax(format, 17.3f));
    EXPECT_NEAR(row.values[9], -17.3f, 1e-5f) << InfoOf(format).name;
  }
}

TEST(RowCodecDeathTest, ARowThatDoesNotFitIsAProgrammersMistake) {
  Row row;
  const std::vector<float> values(48, 1.0f);
  EXPECT_DEATH(EncodeRow(KvFormat::kMxfp4, values, 1.0f, {row.codes, row.scales}), "FitsHeadDim");
  EXPECT_DEATH(EncodeRow(KvFormat::kNvfp4, values, 1.0f, {row.codes, std::span(row.scales).first(2)}), "scales");
}

}  // namespace
}  // namespace haypile
