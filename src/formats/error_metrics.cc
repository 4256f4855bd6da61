#include "formats/error_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "base/check.h"
#include "formats/row_codec.h"

namespace haypile {
namespace {

// Box and Muller's transform of a generator whose output the standard fixes; std::normal_distribution's is not fixed.
std::vector<float> Gaussian(size_t count, uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto uniform = [&] { return (static_cast<double>(generator() >> 11) + 0.5) * 0x1p-53; };
  std::vector<float> values(count + count % 2);
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    const double angle = 2.0 * std::numbers::pi * uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  values.resize(count);
  return values;
}

float DefaultGlobalScale(KvFormat format, std::span<const float> values) {
  if (InfoOf(format).block_scale == BlockScale::kNone) return 1.0f;
  float amax = 0;
  for (const float value : values) amax = std::max(amax, std::abs(value));
  return GlobalScaleForAmax(format, amax);
}

}  // namespace

double SqnrDb(std::span<const float> reference, std::span<const float> decoded) {
  HAYPILE_CHECK_EQ(reference.size(), decoded.size());
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double error = static_cast<double>(reference[i]) - decoded[i];
    signal += static_cast<double>(reference[i]) * reference[i];
    noise += error * error;
  }
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10.0 * std::log10(signal / noise);
}

double MeasureGaussianSqnrDb(KvFormat format, const GaussianData& data) {
  HAYPILE_CHECK(FitsHeadDim(InfoOf(format), data.head_dim));
  const size_t head_dim = static_cast<size_t>(data.head_dim);
  const std::vector<float> values = Gaussian(head_dim * static_cast<size_t>(data.tokens), data.seed);
  const float global_scale = DefaultGlobalScale(format, values);
  std::vector<float> decoded(values.size());
  std::vector<uint16_t> codes(head_dim);
  std::vector<uint32_t> scales(head_dim);
  for (size_t start = 0; start < values.size(); start += head_dim) {
    EncodeRow(format, std::span(values).subspan(start, head_dim), global_scale, {codes, scales});
    DecodeRow(format, codes, scales, global_scale, std::span(decoded).subspan(start, head_dim));
  }
  return SqnrDb(values, decoded);
}

}  // namespace haypile
