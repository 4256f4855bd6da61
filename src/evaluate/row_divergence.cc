#include "evaluate/row_divergence.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace haypile {
namespace {

// Four lanes with the operators of the language (GCC and Clang): a plain loop over one double sum could not be
// vectorized, because that would reorder its additions.
using F4 = float __attribute__((vector_size(16)));
using I4 = int32_t __attribute__((vector_size(16)));
using D4 = double __attribute__((vector_size(32)));
constexpr size_t kLanes = 4;

F4 Load(const float* from) {
  F4 lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

F4 Splat(float value) { return F4{value, value, value, value}; }
D4 Widen(F4 lanes) { return __builtin_convertvector(lanes, D4); }
double Sum(D4 lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); }

// e^x for x <= 0: 2^n e^r with n = round(x / ln 2) and |r| <= ln(2)/2, e^r by its Taylor series to r^7 (remainder
// below 6e-9 of the result, less than float's rounding). Below -87 it gives e^-87, 1e-38: nothing beside the row's
// largest term, 1. No lane may be NaN.
F4 ExpOfNonPositive(F4 x) {
  x = x > Splat(-87.0f) ? x : Splat(-87.0f);
  // Adding 1.5 * 2^23 leaves no bits for a fraction: the sum is rounded to the nearest integer.
  const F4 magic = Splat(12582912.0f);
  const F4 n = (x * 1.44269504f + magic) - magic;
  // ln 2 in two parts; the first has 9 significant bits, so n times it is exact.
  const F4 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  F4 series = Splat(1.0f / 5040);
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const I4 exponent = (__builtin_convertvector(n, I4) + 127) << 23;
  F4 power;
  std::memcpy(&power, &exponent, sizeof(power));
  return series * power;
}

// The row's largest logit; `has_nan` is set when a lane is no number.
float LargestLogit(std::span<const float> row, bool& has_nan) {
  F4 largest = Splat(-std::numeric_limits<float>::infinity());
  I4 nan = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    const F4 x = Load(&row[i]);
    largest = x > largest ? x : largest;
    nan |= x != x;
  }
  float result = largest[0];
  for (size_t lane = 1; lane < kLanes; ++lane) result = largest[lane] > result ? largest[lane] : result;
  for (; i < row.size(); ++i) {
    result = row[i] > result ? row[i] : result;
    has_nan |= std::isnan(row[i]);
  }
  has_nan |= (nan[0] | nan[1] | nan[2] | nan[3]) != 0;
  return result;
}

size_t FirstIndexOf(std::span<const float> row, float value) {
  size_t i = 0;
  while (row[i] != value) ++i;
  return i;
}

// Sums over a row pair, logits shifted by their row's largest (a, b <= 0).
struct ShiftedSums {
  D4 exp_a = {0, 0, 0, 0};
  D4 exp_b = {0, 0, 0, 0};
  D4 exp_a_times_gap = {0, 0, 0, 0};  // e^a (a - b)

  void Add(F4 a, F4 b) {
    a = a > Splat(kLogitFloor) ? a : Splat(kLogitFloor);
    b = b > Splat(kLogitFloor) ? b : Splat(kLogitFloor);
    const F4 weight = ExpOfNonPositive(a);
    exp_a += Widen(weight);
    exp_b += Widen(ExpOfNonPositive(b));
    exp_a_times_gap += Widen(weight) * Widen(a - b);
  }
};

}  // namespace

RowDivergence CompareRows(std::span<const float> baseline, std::span<const float> candidate, int32_t target) {
  HAYPILE_CHECK_EQ(baseline.size(), candidate.size());
  HAYPILE_CHECK(target >= 0 && static_cast<size_t>(target) < baseline.size());
  bool has_nan = false;
  const float largest_a = LargestLogit(baseline, has_nan);
  const float largest_b = LargestLogit(candidate, has_nan);
  if (has_nan || !std::isfinite(largest_a) || !std::isfinite(largest_b)) return {};

  ShiftedSums sums;
  size_t i = 0;
  for (; i + kLanes <= baseline.size(); i += kLanes) {
    sums.Add(Load(&baseline[i]) - largest_a, Load(&candidate[i]) - largest_b);
  }
  if (i < baseline.size()) {
    F4 a = Splat(-std::numeric_limits<float>::infinity()), b = a;
    for (size_t lane = 0; i + lane < baseline.size(); ++lane) {
      a[lane] = baseline[i + lane] - largest_a;
      b[lane] = candidate[i + lane] - largest_b;
    }
    sums.Add(a, b);
  }

  // With A = sum e^a, B = sum e^b: P = e^a / A, log P - log Q = (a - b) - log A + log B.
  const double total_a = Sum(sums.exp_a), total_b = Sum(sums.exp_b);
  const double log_a = std::log(total_a), log_b = std::log(total_b);
  RowDivergence result;
  result.finite = true;
  result.kl = std::max(0.0, Sum(sums.exp_a_times_gap) / total_a - log_a + log_b);
  const size_t t = static_cast<size_t>(target);
  result.baseline_nll = log_a - std::max(kLogitFloor, baseline[t] - largest_a);
  result.candidate_nll = log_b - std::max(kLogitFloor, candidate[t] - largest_b);
  result.same_top1 = FirstIndexOf(baseline, largest_a) == FirstIndexOf(candidate, largest_b);
  return result;
}

}  // namespace haypile
