#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace haypile {

// Counts of magnitudes |x| in 64 bins an octave over the whole range of floats: a bin is 1.1% to 1.6% wide, an octave
// takes memory once a value falls in it. Zeros, and values that are not finite, are counted apart; the largest finite
// magnitude is kept exactly.
class MagnitudeHistogram {
 public:
  static constexpr int kBinsPerOctave = 64;

  void Add(std::span<const float> values);
  void Merge(const MagnitudeHistogram& other);

  uint64_t count() const { return count_; }  // values seen, of any kind
  uint64_t zeros() const { return zeros_; }
  uint64_t not_finite() const { return not_finite_; }  // infinities and NaN
  float amax() const { return amax_; }                 // 0 when no finite value was seen

  // The magnitude that `share` (0 to 1) of the finite values do not exceed, to the width of a bin, never above amax.
  // The upper edge of the bin: what is asked for is a range that holds them.
  float Quantile(double share) const;

  // Every bin that is not empty, from small to large: a magnitude inside it (its middle) and its count.
  void ForEachBin(const std::function<void(float magnitude, uint64_t count)>& visit) const;

  // All of it as bytes, for a state file of the machine that wrote it, and back: false when `bytes` do not begin with a
  // histogram; what was read is taken off their front.
  void AppendTo(std::string& bytes) const;
  bool TakeFrom(std::string_view& bytes);

 private:
  using Octave = std::vector<uint64_t>;  // empty, or kBinsPerOctave counts
  std::array<Octave, 256> octaves_;      // by the exponent field
  uint64_t count_ = 0, zeros_ = 0, not_finite_ = 0;
  float amax_ = 0;
};

}  // namespace haypile
