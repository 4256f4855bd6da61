#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace haypile {

// The statistics behind a comparison. Everything is a pure function of its arguments: the same numbers in give the same
// numbers out, the bootstrap included (its generator is seeded and our own). Proportions are fractions, never per cent.

struct Interval {
  double low = 0;
  double high = 0;

  bool operator==(const Interval&) const = default;
};

// Whether the two intervals share a point.
bool Overlap(const Interval& a, const Interval& b);

// Score interval of a proportion (Wilson 1927): with p = passed/total and z the two-sided normal quantile,
//   (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n),
// clamped to [0, 1]. total = 0 gives [0, 1]. 0 <= passed <= total.
Interval WilsonInterval(int64_t passed, int64_t total, double confidence = 0.95);

// Quantile by linear interpolation between order statistics (Hyndman and Fan 1996, type 7: position q (n-1)).
// `samples` must not be empty.
double Quantile(std::vector<double> samples, double q);
double Median(std::vector<double> samples);

// Median with half the interquartile range as its spread: (q(.75) - q(.25)) / 2. For normal samples that is .674 sigma;
// one outlier among five samples leaves it alone. One sample has spread 0.
struct MedianSpread {
  double median = 0;
  double spread = 0;
  int64_t samples = 0;
};
MedianSpread SummarizeSamples(std::vector<double> samples);

// Mean of candidate - baseline over the same items, with Student's t interval: d +- t(n-1) sd/sqrt(n). With one pair
// the interval is infinite. Spans of equal length >= 1.
struct MeanDifference {
  double mean = 0;
  double stderr_of_mean = 0;
  Interval interval;
  int64_t pairs = 0;
};
MeanDifference PairedDifference(std::span<const double> baseline, std::span<const double> candidate,
                                double confidence = 0.95);

// The same difference with a percentile bootstrap interval (Efron 1979): item indices are drawn with replacement, pairs
// stay together. For small or skewed samples, where t is not to be trusted.
Interval PairedBootstrapInterval(std::span<const double> baseline, std::span<const double> candidate,
                                 double confidence = 0.95, int draws = 10000, uint64_t seed = 1);

// McNemar's test on items that both sides tried: `lost` passed before and fail now, `gained` the reverse; the others
// say nothing. Two-sided. exact = min(1, 2 sum_{i <= min} C(m, i) / 2^m), m = lost + gained; mid-p subtracts the
// probability of the observed split once (Fagerland, Lydersen and Laake 2013: exact is over-conservative). No
// discordant item: p = 1.
struct McNemarResult {
  double exact_p = 1;
  double mid_p = 1;
};
McNemarResult McNemar(int64_t lost, int64_t gained);

// Score interval for the difference of two paired proportions, (gained - lost) / total (Tango 1998): the differences D
// for which |gained - lost - total D| <= z sqrt(total (2q + D(1-D))), q the restricted maximum-likelihood estimate of
// the chance of a loss. lost + gained <= total, total >= 1.
Interval PairedProportionInterval(int64_t lost, int64_t gained, int64_t total, double confidence = 0.95);

// Standard error of the mean of a series whose neighbours are alike, by non-overlapping batch means (Law 2007, 9.5.3):
// given the sum and the number of values of each block of consecutive values, the ratio estimator
//   SE^2 = k/(k-1) sum_j (sum_j - count_j mean)^2 / (sum_j count_j)^2
// over k blocks. Fewer than 2 blocks: NaN.
struct BlockSum {
  double sum = 0;
  int64_t count = 0;
};
struct BlockMean {
  double mean = 0;
  double stderr_of_mean = 0;
  int64_t count = 0;
};
BlockMean MeanOfBlocks(std::span<const BlockSum> blocks);

// Two-sided normal quantile: 1.959964 for .95.
double TwoSidedNormalQuantile(double confidence);

}  // namespace haypile
