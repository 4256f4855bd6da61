#include "evaluate/row_divergence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "evaluate/seeded_random.h"

namespace haypile {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double Uniform(SeededRandom& random) { return static_cast<double>(random.Next() >> 11) * 0x1p-53; }

// Box-Muller, sd 1.
double Normal(SeededRandom& random) {
  return std::sqrt(-2 * std::log(Uniform(random) + 1e-300)) * std::cos(6.283185307179586 * Uniform(random));
}

// The definition, term by term, in long double.
struct Reference {
  long double kl = 0, baseline_nll = 0, candidate_nll = 0;
};
Reference ByDefinition(const std::vector<float>& a, const std::vector<float>& b, size_t target) {
  const auto log_sum = [](const std::vector<float>& row) {
    long double largest = -HUGE_VALL, sum = 0;
    for (float x : row) largest = std::max<long double>(largest, x);
    for (float x : row) sum += std::exp(x - largest);
    return largest + std::log(sum);
  };
  const long double za = log_sum(a), zb = log_sum(b);
  Reference reference;
  for (size_t i = 0; i < a.size(); ++i) {
    const long double log_p = a[i] - za, log_q = b[i] - zb;
    reference.kl += std::exp(log_p) * (log_p - log_q);
  }
  reference.baseline_nll = za - a[target];
  reference.candidate_nll = zb - b[target];
  return reference;
}

TEST(CompareRows, WorkedNumbers) {
  // P = (1/2, 1/4, 1/4), Q = (1/4, 1/2, 1/4): KL = 1/2 ln 2 - 1/4 ln 2 = ln(2)/4.
  const float l = std::log(2.0f);
  const RowDivergence d = CompareRows(std::vector<float>{l, 0, 0}, std::vector<float>{5, 5 + l, 5}, 0);
  EXPECT_TRUE(d.finite);
  EXPECT_NEAR(d.kl, std::log(2.0) / 4, 1e-6);
  EXPECT_NEAR(d.baseline_nll, std::log(2.0), 1e-6);
  EXPECT_NEAR(d.candidate_nll, std::log(4.0), 1e-6);
  EXPECT_FALSE(d.same_top1);
}

TEST(CompareRows, EqualsTheDefinitionForEveryWidthAndSize) {
  SeededRandom random(1);
  for (size_t width : {1, 2, 3, 4, 5, 7, 8, 9, 31, 1000, 49152}) {
    for (double noise : {0.0, .001, .1, 3.0}) {
      std::vector<float> a(width), b(width);
      for (size_t i = 0; i < width; ++i) {
        a[i] = static_cast<float>(10 + 4 * Normal(random));
        b[i] = static_cast<float>(a[i] + noise * Normal(random));
      }
      const size_t target = random.Below(width);
      const RowDivergence d = CompareRows(a, b, static_cast<int32_t>(target));
      const Reference reference = ByDefinition(a, b, target);
      EXPECT_NEAR(d.kl, reference.kl, 1e-6 + 1e-6 * reference.kl) << width << " " << noise;
      EXPECT_NEAR(d.baseline_nll, reference.baseline_nll, 2e-6 * (1 + reference.baseline_nll)) << width;
      EXPECT_NEAR(d.candidate_nll, reference.candidate_nll, 2e-6 * (1 + reference.candidate_nll)) << width;
    }
  }
}

TEST(CompareRows, TheSameRowDivergesByNothing) {
  SeededRandom random(2);
  std::vector<float> row(262144);
  for (float& x : row) x = static_cast<float>(6 * Normal(random));
  const RowDivergence d = CompareRows(row, row, 5);
  EXPECT_EQ(d.kl, 0);
  EXPECT_TRUE(d.same_top1);
  EXPECT_EQ(d.baseline_nll, d.candidate_nll);
}

TEST(CompareRows, AShiftOfAllLogitsChangesNothing) {
  std::vector<float> a = {1, 2, 3, -4, 0}, b = {1, 2.5f, 3, -4, 0}, shifted = b;
  for (float& x : shifted) x += 100;
  EXPECT_NEAR(CompareRows(a, b, 1).kl, CompareRows(a, shifted, 1).kl, 1e-6);
}

TEST(CompareRows, FarTailsAndLargeLogits) {
  const RowDivergence d = CompareRows(std::vector<float>{1e30f, 0, -1e30f}, std::vector<float>{0, 0, 0}, 0);
  EXPECT_TRUE(d.finite);
  EXPECT_NEAR(d.kl, std::log(3.0), 1e-6);
  EXPECT_NEAR(d.baseline_nll, 0, 1e-6);
}

TEST(CompareRows, ImpossibleTokens) {
  // Masked in both rows: as if the token did not exist.
  const RowDivergence both = CompareRows(std::vector<float>{0, 0, -kInfinity}, std::vector<float>{1, 1, -kInfinity}, 0);
  EXPECT_TRUE(both.finite);
  EXPECT_NEAR(both.kl, 0, 1e-6);
  EXPECT_NEAR(both.baseline_nll, std::log(2.0), 1e-6);
  // Only the candidate excludes a likely token: a huge but finite cost.
  const RowDivergence one = CompareRows(std::vector<float>{0, 0}, std::vector<float>{0, -kInfinity}, 1);
  EXPECT_NEAR(one.kl, 500 - std::log(2.0), 1e-3);
  EXPECT_NEAR(one.candidate_nll, 1000, 1e-3);
}

TEST(CompareRows, WhatIsNoNumberIsNeverAgreement) {
  const std::vector<float> good = {1, 2, 3, 4, 5};
  for (float bad_value : {kNan, kInfinity}) {
    for (size_t place = 0; place < good.size(); ++place) {
      std::vector<float> bad = good;
      bad[place] = bad_value;
      EXPECT_FALSE(CompareRows(good, bad, 0).finite) << place;
      EXPECT_FALSE(CompareRows(bad, good, 0).finite) << place;
      EXPECT_FALSE(CompareRows(bad, bad, 0).same_top1);
    }
  }
  const std::vector<float> nothing(5, -kInfinity);
  EXPECT_FALSE(CompareRows(nothing, nothing, 0).finite);
}

TEST(CompareRows, TiesGoToTheFirstToken) {
  EXPECT_TRUE(CompareRows(std::vector<float>{0, 3, 3}, std::vector<float>{0, 4, 1}, 0).same_top1);
  EXPECT_FALSE(CompareRows(std::vector<float>{0, 3, 3}, std::vector<float>{0, 1, 4}, 0).same_top1);
}

}  // namespace
}  // namespace haypile
