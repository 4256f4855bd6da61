#include "kernels/elementwise/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/isa/isa.h"

namespace haypile {
namespace {

RopeSpec Spec(RopeKind kind, double theta, double factor = 1, int64_t original_max_position = 0) {
  RopeSpec spec;
  spec.kind = kind;
  spec.theta = theta;
  spec.factor = factor;
  spec.original_max_position = original_max_position;
  return spec;
}

TEST(RopeFrequenciesTest, DefaultIsAGeometricSeries) {
  const auto rope = MakeRopeFrequencies(Spec(RopeKind::kDefault, 500000.0), 64, 8192);
  ASSERT_EQ(rope.frequencies.size(), 32u);
  EXPECT_EQ(rope.frequencies[0], 1.0f);
  for (int i = 0; i < 32; ++i) EXPECT_FLOAT_EQ(rope.frequencies[i], std::pow(500000.0, -i / 32.0));
  EXPECT_EQ(rope.attention_factor, 1.0f);
}

TEST(RopeFrequenciesTest, LinearDividesAllByTheFactor) {
  const auto rope = MakeRopeFrequencies(Spec(RopeKind::kLinear, 1e6, 8), 256, 32768);
  for (int i = 0; i < 128; ++i) EXPECT_FLOAT_EQ(rope.frequencies[i], std::pow(1e6, -i / 128.0) / 8);
}

TEST(RopeFrequenciesTest, FrequencyFactorsDivide) {
  RopeSpec spec = Spec(RopeKind::kDefault, 10000);
  spec.frequency_factors = {1, 2, 4, 32};
  const auto rope = MakeRopeFrequencies(spec, 8, 4096);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(rope.frequencies[i], std::pow(10000.0, -i / 4.0) / spec.frequency_factors[i]);
  }
}

// Llama 3.1: theta 500,000, factor 8, low 1, high 4, original 8,192, D 128. Wavelengths below 2,048 stay, above 8,192
// are stretched eightfold.
TEST(RopeFrequenciesTest, Llama3KeepsShortAndStretchesLongWavelengths) {
  const RopeSpec spec = Spec(RopeKind::kLlama3, 500000, 8, 8192);
  const auto rope = MakeRopeFrequencies(spec, 128, 131072);
  int kept = 0, stretched = 0, blended = 0;
  for (int i = 0; i < 64; ++i) {
    const double plain = std::pow(500000.0, -i / 64.0), wavelength = 2 * M_PI / plain;
    if (wavelength < 2048) {
      EXPECT_FLOAT_EQ(rope.frequencies[i], plain);
      ++kept;
    } else if (wavelength > 8192) {
      EXPECT_FLOAT_EQ(rope.frequencies[i], plain / 8);
      ++stretched;
    } else {
      const double smooth = (8192 / wavelength - 1) / 3;
      EXPECT_FLOAT_EQ(rope.frequencies[i], plain * (smooth + (1 - smooth) / 8));
      ++blended;
    }
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(stretched, 29);
  EXPECT_EQ(blended, 6);
}

// Qwen2.5's yarn: theta 1e6, factor 4, original 32,768, D 128: the ramp goes from floor(23.6) to ceil(39.7).
TEST(RopeFrequenciesTest, YarnRampsBetweenFastAndSlowDims) {
  const RopeSpec spec = Spec(RopeKind::kYarn, 1e6, 4, 32768);
  const auto rope = MakeRopeFrequencies(spec, 128, 131072);
  const double ln_theta = std::log(1e6);
  const double low = std::floor(128 * std::log(32768 / (32 * 2 * M_PI)) / (2 * ln_theta));
  const double high = std::ceil(128 * std::log(32768 / (2 * M_PI)) / (2 * ln_theta));
  EXPECT_EQ(low, 23);
  EXPECT_EQ(high, 40);
  for (int i = 0; i < 64; ++i) {
    const double plain = std::pow(1e6, -i / 64.0);
    const double share = i <= low ? 0 : i >= high ? 1 : (i - low) / (high - low);
    EXPECT_FLOAT_EQ(rope.frequencies[i], plain * (1 - share) + plain / 4 * share) << i;
  }
  EXPECT_FLOAT_EQ(rope.attention_factor, 0.1 * std::log(4.0) + 1);
}

TEST(RopeFrequenciesTest, YarnTakesAGivenAttentionFactor) {
  RopeSpec spec = Spec(RopeKind::kYarn, 10000, 4, 4096);
  spec.attention_factor = 0.75;
  EXPECT_EQ(MakeRopeFrequencies(spec, 64, 16384).attention_factor, 0.75f);
}

class RopeTest : public testing::TestWithParam<Isa> {};

TEST_P(RopeTest, RotatesHalfSplitPairs) {
  if (!HasIsa(GetParam())) GTEST_SKIP() << "this processor lacks " << IsaName(GetParam());
  const Isa before = ActiveIsa();
  SetActiveIsaForTest(GetParam());
  ThreadPool pool(2);
  for (int head_dim : {2, 6, 16, 30, 64, 96, 256}) {
    const int half = head_dim / 2, heads = 3;
    const std::vector<int64_t> positions = {0, 1, 17, 4095, 31000, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    const auto rows = static_cast<int64_t>(positions.size());
    auto rope = MakeRopeFrequencies(Spec(RopeKind::kDefault, 10000), head_dim, 32768);
    rope.attention_factor = 1.25f;
    std::vector<float> cosines(rows * half), sines(rows * half), x(rows * heads * head_dim);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37f * static_cast<float>(i));
    const auto original = x;
    FillRopeTables(rope, positions, cosines.data(), sines.data(), pool);
    ApplyRope({x.data(), cosines.data(), sines.data(), rows, heads, head_dim}, pool);
    for (int64_t row = 0; row < rows; ++row) {
      for (int head = 0; head < heads; ++head) {
        for (int i = 0; i < half; ++i) {
          const size_t at = (row * heads + head) * head_dim + i;
          // FP32 angles near 31,000 are off by up to 2^-10 radians.
          const double angle = positions[row] * std::pow(10000.0, -2.0 * i / head_dim);
          const double error = 1e-6 + positions[row] * 0x1p-23;
          const double a = original[at], b = original[at + half];
          ASSERT_NEAR(x[at], 1.25 * (a * std::cos(angle) - b * std::sin(angle)), 2 * error);
          ASSERT_NEAR(x[at + half], 1.25 * (b * std::cos(angle) + a * std::sin(angle)), 2 * error);
        }
      }
    }
  }
  SetActiveIsaForTest(before);
}

INSTANTIATE_TEST_SUITE_P(EveryLevel, RopeTest, testing::ValuesIn(kEveryIsa),
                         [](const auto& test) { return std::string(IsaName(test.param)); });

}  // namespace
}  // namespace haypile
