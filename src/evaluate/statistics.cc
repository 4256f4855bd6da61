#include "evaluate/statistics.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "evaluate/seeded_random.h"

namespace haypile {
namespace {

// Standardized distance of the observed (gained - lost) from a true difference `d`; falls as d rises.
double TangoScore(double lost, double gained, double total, double d) {
  const double a = 2 * total;
  const double b = -lost - gained + (2 * total - gained + lost) * d;
  const double c = -lost * d * (1 - d);
  const double q = (std::sqrt(std::max(0.0, b * b - 4 * a * c)) - b) / (2 * a);
  const double variance = total * (2 * q + d * (1 - d));
  const double distance = gained - lost - total * d;
  if (variance <= 0) {
    return distance == 0 ? 0 : std::copysign(std::numeric_limits<double>::infinity(), distance);
  }
  return distance / std::sqrt(variance);
}

// The d in [low, high] where the falling TangoScore crosses `target`.
double SolveTango(double lost, double gained, double total, double target, double low, double high) {
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (TangoScore(lost, gained, total, middle) > target ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<double> Differences(std::span<const double> baseline, std::span<const double> candidate) {
  HAYPILE_CHECK_EQ(baseline.size(), candidate.size());
  HAYPILE_CHECK_LT(0u, baseline.size());
  std::vector<double> differences(baseline.size());
  for (size_t i = 0; i < baseline.size(); ++i) differences[i] = candidate[i] - baseline[i];
  return differences;
}

double MeanOf(std::span<const double> values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

bool Overlap(const Interval& a, const Interval& b) { return a.low <= b.high && b.low <= a.high; }

double TwoSidedNormalQuantile(double confidence) {
  HAYPILE_CHECK(confidence > 0 && confidence < 1);
  return boost::math::quantile(boost::math::normal_distribution<>(), 0.5 + confidence / 2);
}

Interval WilsonInterval(int64_t passed, int64_t total, double confidence) {
  HAYPILE_CHECK(passed >= 0 && passed <= total);
  if (total == 0) return {0, 1};
  const double n = static_cast<double>(total);
  const double p = static_cast<double>(passed) / n;
  const double z = TwoSidedNormalQuantile(confidence);
  const double shrink = 1 + z * z / n;
  const double center = (p + z * z / (2 * n)) / shrink;
  const double half = z / shrink * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  // At the edges the formula is exactly 0 or 1; rounding must not say otherwise.
  return {passed == 0 ? 0 : std::max(0.0, center - half), passed == total ? 1 : std::min(1.0, center + half)};
}

double Quantile(std::vector<double> samples, double q) {
  HAYPILE_CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(samples.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (position - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double Median(std::vector<double> samples) { return Quantile(std::move(samples), 0.5); }

MedianSpread SummarizeSamples(std::vector<double> samples) {
  const int64_t count = static_cast<int64_t>(samples.size());
  std::sort(samples.begin(), samples.end());
  return {Quantile(samples, 0.5), (Quantile(samples, 0.75) - Quantile(samples, 0.25)) / 2, count};
}

MeanDifference PairedDifference(std::span<const double> baseline, std::span<const double> candidate,
                                double confidence) {
  const std::vector<double> differences = Differences(baseline, candidate);
  const double n = static_cast<double>(differences.size());
  MeanDifference result;
  result.pairs = static_cast<int64_t>(differences.size());
  result.mean = MeanOf(differences);
  if (differences.size() < 2) {
    const double infinity = std::numeric_limits<double>::infinity();
    result.stderr_of_mean = infinity;
    result.interval = {-infinity, infinity};
    return result;
  }
  double squares = 0;
  for (double d : differences) squares += (d - result.mean) * (d - result.mean);
  result.stderr_of_mean = std::sqrt(squares / (n - 1) / n);
  const double t = boost::math::quantile(boost::math::students_t_distribution<>(n - 1), 0.5 + confidence / 2);
  result.interval = {result.mean - t * result.stderr_of_mean, result.mean + t * result.stderr_of_mean};
  return result;
}

Interval PairedBootstrapInterval(std::span<const double> baseline, std::span<const double> candidate, double confidence,
                                 int draws, uint64_t seed) {
  const std::vector<double> differences = Differences(baseline, candidate);
  HAYPILE_CHECK_LT(0, draws);
  SeededRandom random(seed);
  std::vector<double> means(static_cast<size_t>(draws));
  for (double& mean : means) {
    double sum = 0;
    for (size_t i = 0; i < differences.size(); ++i) sum += differences[random.Below(differences.size())];
    mean = sum / static_cast<double>(differences.size());
  }
  std::sort(means.begin(), means.end());
  return {Quantile(means, (1 - confidence) / 2), Quantile(means, (1 + confidence) / 2)};
}

McNemarResult McNemar(int64_t lost, int64_t gained) {
  HAYPILE_CHECK(lost >= 0 && gained >= 0);
  const int64_t discordant = lost + gained;
  if (discordant == 0) return {};
  const double smaller = static_cast<double>(std::min(lost, gained));
  const boost::math::binomial_distribution<> coin(static_cast<double>(discordant), 0.5);
  const double observed = boost::math::pdf(coin, smaller);
  const double exact = std::min(1.0, 2 * boost::math::cdf(coin, smaller));
  return {exact, lost == gained ? 1 - observed / 2 : exact - observed};
}

Interval PairedProportionInterval(int64_t lost, int64_t gained, int64_t total, double confidence) {
  HAYPILE_CHECK(lost >= 0 && gained >= 0 && total >= 1 && lost + gained <= total);
  const double b = static_cast<double>(lost);
  const double c = static_cast<double>(gained);
  const double n = static_cast<double>(total);
  const double z = TwoSidedNormalQuantile(confidence);
  const double estimate = (c - b) / n;
  return {SolveTango(b, c, n, z, -1, estimate), SolveTango(b, c, n, -z, estimate, 1)};
}

BlockMean MeanOfBlocks(std::span<const BlockSum> blocks) {
  BlockMean result;
  double sum = 0;
  int64_t filled = 0;
  for (const BlockSum& block : blocks) {
    sum += block.sum;
    result.count += block.count;
    filled += block.count > 0;
  }
  if (result.count == 0) {
    result.mean = result.stderr_of_mean = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  const double n = static_cast<double>(result.count);
  result.mean = sum / n;
  if (filled < 2) {
    result.stderr_of_mean = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  double squares = 0;
  for (const BlockSum& block : blocks) {
    const double residual = block.sum - static_cast<double>(block.count) * result.mean;
    squares += residual * residual;
  }
  const double k = static_cast<double>(filled);
  result.stderr_of_mean = std::sqrt(k / (k - 1) * squares) / n;
  return result;
}

}  // namespace haypile
