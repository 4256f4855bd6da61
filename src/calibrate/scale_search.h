#pragma once

#include <optional>
#include <string>

#include "calibrate/kv_statistics.h"
#include "formats/kv_format.h"

namespace haypile {

// How a scale is made of a range.
//   amax        amax / GlobalScaleDivisor: nothing is cut off
//   percentile  the same of a percentile of the magnitudes: what lies above is cut off
//   mse         the scale of least squared error among amax's own times 2^(j/16), j from -64 to 16
//   pow2        amax's own rounded up to a power of two: it moves the exponent and leaves fractions as they are, so
//               that no FP8 value in range at 1.0 is stored worse than there (a scale below 1 only refines subnormals)
enum class ScaleMethod { kAmax, kPercentile, kMse, kPow2 };
inline constexpr ScaleMethod kScaleMethods[] = {ScaleMethod::kAmax, ScaleMethod::kPercentile, ScaleMethod::kMse,
                                                ScaleMethod::kPow2};

struct ScaleRule {
  KvFormat format = KvFormat::kFp8E4m3;  // one that has a global scale
  ScaleMethod method = ScaleMethod::kAmax;
  double percentile = 99.99;  // of kPercentile, above 0 and at most 100
};

// The scale (decode multiplier) for a range whose amax is finite and above zero; always usable.
float ScaleFor(const ScaleRule& rule, const RangeStatistics& range, int head_dim);

// Squared error that storing the range with `scale` adds, relative to its squared values: sum (x - x')^2 / sum x^2,
// measured with EncodeRow and DecodeRow. FP8: over every value seen, each bin of the histogram standing for its values.
// Formats with block scales: over the sampled rows for the rounding, and over every value seen for what lies beyond
// the range.
double RelativeSquaredError(KvFormat format, float scale, const RangeStatistics& range, int head_dim);

}  // namespace haypile
