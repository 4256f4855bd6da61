#include "kernels/attention/attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/attention/attention_case.h"
#include "kernels/attention/attention_wide_test.h"

namespace haypile {
namespace {

struct Level {
  std::string name;
  AttendSpanFn kernel;
  bool bf16_weights = false;    // weights of 8-bit floats may be one BF16 number (bf16_products.h)
  bool splits_weights = false;  // a weight is the sum of two numbers, the second perhaps zero: Inf may give NaN
};

// Every kernel this processor runs, chosen here or not, and with AVX2 those of higher levels that it lacks, emulated.
std::vector<Level> Levels() {
  std::vector<Level> levels;
  levels.push_back({"scalar", AttendSpanScalar});
#if defined(__x86_64__)
  if (HighestIsa() >= Isa::kAvx2) {
    levels.push_back({"avx2", AttendSpanAvx2});
    levels.push_back({"avx2 by tables", AttendSpanAvx2Tables});
    if (HighestIsa() < Isa::kAvx512) levels.push_back({"avx512 emulated", AttendSpanEmulated512});
    if (HighestIsa() < Isa::kAvx512Bf16)
      levels.push_back({"avx512_bf16 emulated", AttendSpanEmulated512Bf16, true, true});
    if (HighestIsa() < Isa::kAmx) levels.push_back({"amx emulated", AttendSpanEmulatedAmx, false, true});
  }
  if (HighestIsa() >= Isa::kAvx512) {
    levels.push_back({"avx512", AttendSpanAvx512});
    levels.push_back({"avx512 by tables", AttendSpanAvx512Tables});
  }
  if (HighestIsa() >= Isa::kAvx512Bf16) {
    levels.push_back({"avx512_bf16", AttendSpanAvx512Bf16, true, true});
    levels.push_back({"avx512_bf16 by tables", AttendSpanAvx512Bf16Tables});
  }
  if (HighestIsa() >= Isa::kAmx) levels.push_back({"amx", AttendSpanAmx, false, true});
#elif defined(__aarch64__)
  levels.push_back({"neon", AttendSpanNeon});
#endif
  return levels;
}

TEST(PagedAttention, EveryLevelOfThisProcessorIsTested) {
  for (const Isa isa : kEveryIsa) {
    if (!HasIsa(isa)) continue;
    const auto levels = Levels();
    EXPECT_TRUE(std::any_of(levels.begin(), levels.end(), [&](const Level& level) {
      return level.kernel == AttendSpanFor(isa);
    })) << IsaName(isa);
  }
}

// A score is a sum of D products, each rounded once: with unit inputs its error is about sqrt(D) * 2^-24 * |score|
// terms, below 2^-18 at D = 256 for scores up to 8 or so. exp2 adds 2^-22, the weighted sum of T values about
// sqrt(T) * 2^-24. Together below 3e-5 of the largest value; a wrong element, scale or mask is off by 1e-2 or more.
constexpr double kTolerance = 3e-5;

// What rounding weights may cost, of the largest value. Where values are integers (all that have block scales) vectors
// round a weight times its scale by up to e = 2^-16 of twice the largest in the block (int_products.h): one token can
// be off by 2^-15. Errors of T tokens add like random ones, sigma = e / sqrt(3) * sqrt(T) * w_max / sum(w), where the
// last two make about 1.5 for 20 tokens of unit scores, and the worst of 20,000 outputs is 4.2 sigma: about 2^-14.
// Values of 8 bits are held to 2^-15 all the same. One BF16 number is within 2^-9.
double WeightError(const Level& level, const AttentionCase& shape) {
  if (level.kernel == AttendSpanScalar) return 0;
  const KvFormatInfo& info = InfoOf(shape.v_format);
  if (info.block_scale != BlockScale::kNone) return info.element_bits == 4 ? 0x1p-14 : 0x1p-15;
  return level.bf16_weights && info.element_bits == 8 ? 0x1p-9 : 0;
}

std::vector<float> OutputOf(AttentionProblem& problem, const Level& level, int threads) {
  ThreadPool pool(threads);
  std::vector<float> output(problem.OutputSize(), -7.0f);
  AttentionArgs args = problem.Args(output.data());
  args.span_kernel = level.kernel;
  PagedAttention(args, pool);
  return output;
}

void ExpectMatches(AttentionProblem& problem, const std::vector<double>& reference, const Level& level, int threads,
                   const std::string& what) {
  const std::vector<float> output = OutputOf(problem, level, threads);
  double worst = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    const double error = std::abs(output[i] - reference[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  EXPECT_LE(worst, (kTolerance + WeightError(level, problem.shape())) * problem.ValueScale())
      << level.name << ", " << what;
}

void CheckAllLevels(const AttentionCase& shape, const std::string& what) {
  AttentionProblem problem(shape);
  const std::vector<double> reference = problem.Reference();
  for (const Level& level : Levels()) ExpectMatches(problem, reference, level, 2, what);
}

TEST(PagedAttention, EveryFormatEveryHeadDimDecodeAndPrefill) {
  for (const auto& info : AllKvFormats()) {
    for (const int head_dim : {64, 80, 96, 128, 256}) {
      if (!FitsHeadDim(info, head_dim)) continue;
      AttentionCase shape;
      shape.k_format = shape.v_format = info.format;
      shape.head_dim = head_dim;
      shape.group = 3;
      shape.context = {0, 16, 37, 300, 5};
      shape.queries = {1, 1, 1, 1, 40};
      shape.k_scale = 0.5f;
      shape.v_scale = 0.25f;
      CheckAllLevels(shape, std::string(info.name) + " D=" + std::to_string(head_dim));
    }
  }
}

TEST(PagedAttention, EveryPairOfFormats) {
  for (const auto& k : AllKvFormats()) {
    for (const auto& v : AllKvFormats()) {
      AttentionCase shape;
      shape.k_format = k.format;
      shape.v_format = v.format;
      shape.kv_heads = 1;
      shape.group = 2;
      shape.context = {33, 17};
      shape.queries = {1, 9};
      CheckAllLevels(shape, std::string(k.name) + "/" + std::string(v.name));
    }
  }
}

TEST(PagedAttention, EveryGroupSize) {
  for (int group = 1; group <= 16; ++group) {
    for (const KvFormat format : {KvFormat::kBf16, KvFormat::kFp8E4m3, KvFormat::kNvfp4, KvFormat::kQ8_0}) {
      AttentionCase shape;
      shape.k_format = shape.v_format = format;
      shape.group = group;
      shape.kv_heads = 1;
      shape.context = {70, 3};
      shape.queries = {1, 20};
      CheckAllLevels(shape, "group " + std::to_string(group));
    }
  }
}

TEST(PagedAttention, LongSequencesSplitAndMerge) {
  AttentionCase shape;
  shape.k_format = KvFormat::kFp8E4m3;
  shape.v_format = KvFormat::kNvfp4;
  shape.kv_heads = 1;
  shape.context = {1022, 1023, 1024, 2500};
  shape.queries = {1, 1, 1, 1};
  CheckAllLevels(shape, "splits");
}

// A draft to verify: the last split of some rows holds no token that they see.
TEST(PagedAttention, DraftsSplitAndMerge) {
  for (const int window : {0, 700}) {
    AttentionCase shape;
    shape.k_format = KvFormat::kQ8_0;
    shape.v_format = KvFormat::kFp8E4m3;
    shape.kv_heads = 1;
    shape.group = 3;
    shape.window = window;
    shape.context = {1022, 1020, 2047, 3, 2500};
    shape.queries = {4, 8, 2, 5, 3};
    CheckAllLevels(shape, "drafts, window " + std::to_string(window));
  }
}

TEST(PagedAttention, WindowsAndPageSizes) {
  for (const int page_tokens : {16, 32, 64}) {
    for (const int window : {1, 15, 16, 17, 100, 5000}) {
      AttentionCase shape;
      shape.k_format = KvFormat::kBf16;
      shape.v_format = KvFormat::kFp8E5m2;
      shape.page_tokens = page_tokens;
      shape.window = window;
      shape.kv_heads = 1;
      shape.group = 4;
      shape.context = {200, 61, 0};
      shape.queries = {1, 33, 70};
      CheckAllLevels(shape, "window " + std::to_string(window) + " page " + std::to_string(page_tokens));
    }
  }
}

TEST(PagedAttention, LargeScoresStayExact) {
  AttentionCase shape;
  shape.context = {500};
  shape.queries = {1};
  shape.score_std = 20.0f;  // one key takes nearly all the weight; errors of scores grow with their size
  AttentionProblem problem(shape);
  const std::vector<double> reference = problem.Reference();
  for (const Level& level : Levels()) {
    const std::vector<float> output = OutputOf(problem, level, 1);
    for (size_t i = 0; i < output.size(); ++i) EXPECT_NEAR(output[i], reference[i], 1e-3) << level.name;
  }
}

TEST(PagedAttention, ThreadsDoNotChangeABit) {
  AttentionCase shape;
  shape.k_format = shape.v_format = KvFormat::kNvfp4;
  shape.group = 3;
  shape.context = {3000, 100, 7};
  shape.queries = {1, 30, 1};
  AttentionProblem problem(shape);
  for (const Level& level : Levels()) {
    std::vector<std::vector<float>> outputs;
    for (const int threads : {1, 2, 5}) outputs.push_back(OutputOf(problem, level, threads));
    EXPECT_EQ(0, std::memcmp(outputs[0].data(), outputs[1].data(), outputs[0].size() * 4)) << level.name;
    EXPECT_EQ(0, std::memcmp(outputs[0].data(), outputs[2].data(), outputs[0].size() * 4)) << level.name;
  }
}

// Every code of every 8- and 4-bit element must decode as the row codec says: equal tokens of equal weight, their V
// read back as the output; a part of a tile, and a whole one.
class EveryCode : public testing::TestWithParam<int> {};

TEST_P(EveryCode, DecodesExactly) {
  for (const auto& info : AllKvFormats()) {
    if (info.element_bits == 16) continue;
    AttentionCase shape;
    shape.v_format = info.format;
    shape.kv_heads = 1;
    shape.head_dim = 256;
    shape.context = {GetParam() - 1};
    shape.queries = {1};
    shape.score_std = 0.0f;  // weights of exactly one
    AttentionProblem problem(shape);
    const TileLayout layout = MakeTileLayout(shape.k_format, shape.v_format, 1, 256);
    for (int code = 0; code < (1 << info.element_bits); ++code) {
      for (int page = 0; page < 2; ++page) {
        uint8_t* tile = problem.pages() + page * layout.tile_bytes;
        std::memset(tile + layout.v_data_offset, info.element_bits == 4 ? code * 17 : code,
                    static_cast<size_t>(layout.data_head_stride - layout.v_data_offset));
        const uint32_t one = info.block_scale == BlockScale::kFp32   ? 0x3f800000
                             : info.block_scale == BlockScale::kFp16 ? 0x3c00
                             : info.block_scale == BlockScale::kE8m0 ? 127
                                                                     : 0x38;
        for (int i = 0; i < BlockScalesPerHead(info, 256); ++i) {
          for (int token = 0; token < kTileTokens; ++token) {
            std::memcpy(tile + layout.v_scale_offset + ScaleByte(info.block_scale_bytes, token, i), &one,
                        info.block_scale_bytes);
          }
        }
      }
      const float expected = ElementValue(info.format, static_cast<uint16_t>(code));
      for (const Level& level : Levels()) {
        for (const float value : OutputOf(problem, level, 1)) {
          if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(value)) << info.name << " code " << code << " " << level.name;
          } else if (std::isinf(expected) && level.splits_weights) {
            ASSERT_FALSE(std::isfinite(value)) << info.name << " code " << code << " " << level.name;
          } else {
            ASSERT_EQ(value, expected) << info.name << " code " << code << " " << level.name;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tokens, EveryCode, testing::Values(1, 16));

// Every level's output is NaN in all dims, or in `dim` alone when it is not negative.
void ExpectNan(AttentionProblem& problem, int head_dim, int dim, const std::string& what) {
  for (const Level& level : Levels()) {
    const std::vector<float> output = OutputOf(problem, level, 1);
    for (size_t i = 0; i < output.size(); ++i) {
      const bool expected = dim < 0 || static_cast<int>(i % head_dim) == dim;
      ASSERT_EQ(std::isnan(output[i]), expected) << what << ", " << level.name << ", at " << i;
    }
  }
}

// A key that holds NaN spoils the output of every row that sees it, as softmax over it must, and a value its dim of it.
TEST(PagedAttention, SpecialCodesSpoilTheOutput) {
  struct Special {
    KvFormat format;
    uint8_t code;
  };
  constexpr int kToken = 3, kDim = 17;
  for (const Special special :
       {Special{KvFormat::kFp8E4m3, 0x7f}, Special{KvFormat::kFp8E4m3, 0xff}, Special{KvFormat::kFp8E4m3Fnuz, 0x80},
        Special{KvFormat::kFp8E5m2, 0x7e}, Special{KvFormat::kFp8E5m2, 0xfd}}) {
    for (const bool key : {true, false}) {
      AttentionCase shape;
      (key ? shape.k_format : shape.v_format) = special.format;
      shape.kv_heads = 1;
      shape.context = {40};
      shape.queries = {1};
      AttentionProblem problem(shape);
      const TileLayout layout = MakeTileLayout(shape.k_format, shape.v_format, 1, shape.head_dim);
      const int64_t byte = key ? layout.k_data_offset + KElementByte(special.format, 8, kToken, kDim)
                               : layout.v_data_offset + VElementByte(special.format, 8, kToken, kDim);
      for (int page = 0; page < 4; ++page) problem.pages()[page * layout.tile_bytes + byte] = special.code;
      ExpectNan(problem, shape.head_dim, key ? -1 : kDim,
                fmt::format("{} code {} of {}", InfoOf(special.format).name, special.code, key ? "K" : "V"));
    }
  }
}

TEST(PagedAttention, NanKeysSpoilTheOutput) {
  for (const KvFormatInfo& info : AllKvFormats()) {
    AttentionCase shape;
    shape.k_format = shape.v_format = info.format;
    shape.kv_heads = 1;
    shape.context = {40};
    shape.queries = {1};
    shape.nan_key = true;
    AttentionProblem problem(shape);
    ExpectNan(problem, shape.head_dim, -1, std::string(info.name));
  }
}

double DecibelsOf(const std::vector<float>& output, const std::vector<double>& reference) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    signal += reference[i] * reference[i];
    noise += (output[i] - reference[i]) * (output[i] - reference[i]);
  }
  return 10 * std::log10(signal / noise);
}

// 64k keys of unit scores: the output is as near to that of unquantized K and V as the format allows. The
// double-precision answer from decoded rows says what that is; a kernel may lose 2 dB of it with bf16, whose own noise
// is not far above that of arithmetic, and .1 dB otherwise. Of FP8 values alone 31 dB are left.
TEST(PagedAttention, LongContextsAreAsAccurateAsTheFormat) {
  struct Pair {
    KvFormat k, v;
    double least;
  };
  for (const Pair pair : {Pair{KvFormat::kBf16, KvFormat::kBf16, 0}, Pair{KvFormat::kBf16, KvFormat::kFp8E4m3, 31},
                          Pair{KvFormat::kFp8E4m3, KvFormat::kFp8E4m3, 0}, Pair{KvFormat::kFp8E5m2, KvFormat::kFp16, 0},
                          Pair{KvFormat::kInt8PerTokenHead, KvFormat::kInt8PerTokenHead, 0},
                          Pair{KvFormat::kQ8_0, KvFormat::kNvfp4, 0}, Pair{KvFormat::kMxfp4, KvFormat::kQ4_0, 0}}) {
    AttentionCase shape;
    shape.k_format = pair.k;
    shape.v_format = pair.v;
    shape.kv_heads = 1;
    shape.group = 2;
    shape.context = {65535};
    shape.queries = {1};
    shape.keeps_exact_rows = true;
    AttentionProblem problem(shape);
    const std::vector<double> exact = problem.ExactReference(), decoded = problem.Reference();
    const double possible = DecibelsOf({decoded.begin(), decoded.end()}, exact);
    for (const Level& level : Levels()) {
      const double reached = DecibelsOf(OutputOf(problem, level, 2), exact);
      const double least = std::max(pair.least, possible - (pair.v == KvFormat::kBf16 ? 2.0 : 0.1));
      EXPECT_GE(reached, least) << InfoOf(pair.k).name << "/" << InfoOf(pair.v).name << ", " << level.name;
    }
  }
}

#if defined(__x86_64__)
TEST(Exp2, IsWithinTwoUnitsInTheLastPlace) {
  if (!HasIsa(Isa::kAvx2)) GTEST_SKIP() << "no AVX2";
  for (double x = -128; x < 127.5; x += 0.000977) {
    const float eight[8] = {static_cast<float>(x)};
    float found[8];
    Exp2OfEight(eight, found);
    const double expected = std::exp2(double{eight[0]});
    const double unit = std::max(0x1p-149, std::exp2(std::floor(double{eight[0]}) - 23));
    if (x <= -126) {  // at most the smallest normal number
      ASSERT_LE(std::abs(found[0] - expected), 0x1p-126) << x;
    } else {
      ASSERT_LE(std::abs(found[0] - expected), 2 * unit) << x;
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const float special[8] = {0, -127, -1000, -infinity, std::nanf(""), 1, -1, -3e38f};
  float found[8];
  Exp2OfEight(special, found);
  const float expected[8] = {1, 0, 0, 0, 0, 2, 0.5f, 0};
  for (int i = 0; i < 8; ++i) {
    if (i == 4) {
      EXPECT_TRUE(std::isnan(found[i]));
    } else {
      EXPECT_EQ(found[i], expected[i]) << special[i];
    }
  }
}
#endif

// A weight of 1/1024 times a value of 1 must not vanish, as it does where products are flushed.
TEST(PagedAttention, SmallWeightsCount) {
  AttentionCase shape;
  shape.k_format = shape.v_format = KvFormat::kFp8E4m3;
  shape.kv_heads = 1;
  shape.context = {1023};
  shape.queries = {1};
  shape.score_std = 0.0f;  // equal scores: every weight is 1/1024
  CheckAllLevels(shape, "equal weights");
}

}  // namespace
}  // namespace haypile
