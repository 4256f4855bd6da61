#include "calibrate/scale_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "formats/row_codec.h"

namespace haypile {
namespace {

constexpr int kStepsPerOctave = 16;
constexpr int kSmallestStep = -64, kLargestStep = 16;

// Bins as one row of values with their weights, a multiple of 16 long as the codecs ask.
struct WeightedValues {
  std::vector<float> values;
  std::vector<double> weights;
  double energy = 0;  // sum of weight x value^2
};

WeightedValues BinsOf(const MagnitudeHistogram& histogram) {
  WeightedValues bins;
  histogram.ForEachBin([&](float magnitude, uint64_t count) {
    bins.values.push_back(magnitude);
    bins.weights.push_back(static_cast<double>(count));
    bins.energy += static_cast<double>(count) * magnitude * magnitude;
  });
  while (bins.values.size() % 16 != 0) {
    bins.values.push_back(0);
    bins.weights.push_back(0);
  }
  return bins;
}

void RoundTrip(KvFormat format, float scale, std::span<const float> values, std::span<float> decoded) {
  const int blocks = BlockScalesPerHead(InfoOf(format), static_cast<int>(values.size()));
  std::vector<uint16_t> codes(values.size());
  std::vector<uint32_t> scales(static_cast<size_t>(blocks));
  EncodeRow(format, values, scale, {codes, scales});
  DecodeRow(format, codes, scales, scale, decoded);
}

// Measures one range again and again, at any scale.
class ErrorMeter {
 public:
  ErrorMeter(KvFormat format, const RangeStatistics& range, int head_dim)
      : format_(format), head_dim_(static_cast<size_t>(head_dim)), range_(range), bins_(BinsOf(range.histogram)) {}

  double At(float scale) const {
    if (bins_.energy == 0) return 0;
    return InfoOf(format_).block_scale == BlockScale::kNone ? OverBins(scale) : OverRows(scale);
  }

 private:
  double OverBins(float scale) const {
    std::vector<float> decoded(bins_.values.size());
    RoundTrip(format_, scale, bins_.values, decoded);
    double error = 0;
    for (size_t i = 0; i < decoded.size(); ++i) {
      const double difference = double{decoded[i]} - bins_.values[i];
      error += bins_.weights[i] * difference * difference;
    }
    return error / bins_.energy;
  }

  double OverRows(float scale) const {
    const auto limit = static_cast<float>(GlobalScaleDivisor(format_) * scale);
    double beyond = 0;
    for (size_t i = 0; i < bins_.values.size(); ++i) {
      const double excess = std::max(0.0, double{bins_.values[i]} - limit);
      beyond += bins_.weights[i] * excess * excess;
    }
    double error = 0, energy = 0;
    std::vector<float> row(head_dim_), decoded(head_dim_);
    for (size_t at = 0; at + head_dim_ <= range_.rows.size(); at += head_dim_) {
      for (size_t i = 0; i < head_dim_; ++i) row[i] = std::clamp(range_.rows[at + i], -limit, limit);
      RoundTrip(format_, scale, row, decoded);
      for (size_t i = 0; i < head_dim_; ++i) {
        const double difference = double{decoded[i]} - row[i];
        error += difference * difference;
        energy += double{range_.rows[at + i]} * range_.rows[at + i];
      }
    }
    return (energy > 0 ? error / energy : 0) + beyond / bins_.energy;
  }

  const KvFormat format_;
  const size_t head_dim_;
  const RangeStatistics& range_;
  const WeightedValues bins_;
};

float LeastErrorScale(KvFormat format, const RangeStatistics& range, int head_dim) {
  const ErrorMeter meter(format, range, head_dim);
  const float whole = GlobalScaleForAmax(format, range.histogram.amax());
  float best = whole;
  double least = meter.At(whole);
  // Away from amax's scale only for less error: of equals, the one that cuts nothing off.
  for (int step = kSmallestStep; step <= kLargestStep; ++step) {
    const float scale = whole * std::exp2(static_cast<float>(step) / kStepsPerOctave);
    if (!IsUsableGlobalScale(scale)) continue;
    const double error = meter.At(scale);
    if (error >= least) continue;
    least = error;
    best = scale;
  }
  return best;
}

float PowerOfTwoAtLeast(float value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5f ? value : std::ldexp(1.0f, exponent);
}

}  // namespace

float ScaleFor(const ScaleRule& rule, const RangeStatistics& range, int head_dim) {
  HAYPILE_CHECK(InfoOf(rule.format).has_global_scale);
  const MagnitudeHistogram& histogram = range.histogram;
  switch (rule.method) {
    case ScaleMethod::kAmax:
      break;
    case ScaleMethod::kPercentile:
      // A range that is nearly all zeros has a percentile of zero, of which no scale can be made.
      if (const float value = histogram.Quantile(rule.percentile / 100); value > 0) {
        return GlobalScaleForAmax(rule.format, value);
      }
      break;
    case ScaleMethod::kMse:
      return LeastErrorScale(rule.format, range, head_dim);
    case ScaleMethod::kPow2:
      return PowerOfTwoAtLeast(GlobalScaleForAmax(rule.format, histogram.amax()));
  }
  return GlobalScaleForAmax(rule.format, histogram.amax());
}

double RelativeSquaredError(KvFormat format, float scale, const RangeStatistics& range, int head_dim) {
  return ErrorMeter(format, range, head_dim).At(scale);
}

}  // namespace haypile
