#include "calibrate/magnitude_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "calibrate/state_bytes.h"

namespace haypile {
namespace {

constexpr int kBinShift = 23 - 6;  // of a float's bits: the exponent and 6 bits of the fraction remain
constexpr uint32_t kMagnitudeMask = 0x7fffffffu;
constexpr uint32_t kInfinityBits = 0x7f800000u;

float LowerEdge(uint32_t bin) { return std::bit_cast<float>(bin << kBinShift); }

}  // namespace

void MagnitudeHistogram::Add(std::span<const float> values) {
  count_ += values.size();
  uint32_t largest = std::bit_cast<uint32_t>(amax_);
  for (const float value : values) {
    const uint32_t bits = std::bit_cast<uint32_t>(value) & kMagnitudeMask;
    if (bits >= kInfinityBits) {
      ++not_finite_;
    } else if (bits == 0) {
      ++zeros_;
    } else {
      largest = std::max(largest, bits);
      const uint32_t bin = bits >> kBinShift;
      Octave& octave = octaves_[bin / kBinsPerOctave];
      if (octave.empty()) octave.resize(kBinsPerOctave);
      ++octave[bin % kBinsPerOctave];
    }
  }
  amax_ = std::bit_cast<float>(largest);
}

void MagnitudeHistogram::Merge(const MagnitudeHistogram& other) {
  count_ += other.count_;
  zeros_ += other.zeros_;
  not_finite_ += other.not_finite_;
  amax_ = std::max(amax_, other.amax_);
  for (size_t i = 0; i < octaves_.size(); ++i) {
    if (other.octaves_[i].empty()) continue;
    if (octaves_[i].empty()) octaves_[i].resize(kBinsPerOctave);
    for (size_t bin = 0; bin < kBinsPerOctave; ++bin) octaves_[i][bin] += other.octaves_[i][bin];
  }
}

float MagnitudeHistogram::Quantile(double share) const {
  const auto wanted = share * static_cast<double>(count_ - not_finite_);
  auto seen = static_cast<double>(zeros_);
  if (seen >= wanted) return 0;
  for (uint32_t i = 0; i < octaves_.size(); ++i) {
    for (uint32_t bin = 0; bin < octaves_[i].size(); ++bin) {
      seen += static_cast<double>(octaves_[i][bin]);
      if (seen >= wanted) return std::min(amax_, LowerEdge(i * kBinsPerOctave + bin + 1));
    }
  }
  return amax_;
}

void MagnitudeHistogram::ForEachBin(const std::function<void(float, uint64_t)>& visit) const {
  for (uint32_t i = 0; i < octaves_.size(); ++i) {
    for (uint32_t bin = 0; bin < octaves_[i].size(); ++bin) {
      if (octaves_[i][bin] == 0) continue;
      const uint32_t bits = (i * kBinsPerOctave + bin) << kBinShift | 1u << (kBinShift - 1);
      visit(std::min(std::bit_cast<float>(bits), amax_), octaves_[i][bin]);
    }
  }
}

void MagnitudeHistogram::AppendTo(std::string& bytes) const {
  AppendValue(bytes, count_);
  AppendValue(bytes, zeros_);
  AppendValue(bytes, not_finite_);
  AppendValue(bytes, amax_);
  for (const Octave& octave : octaves_) {
    AppendValue(bytes, static_cast<uint8_t>(!octave.empty()));
    for (const uint64_t count : octave) AppendValue(bytes, count);
  }
}

bool MagnitudeHistogram::TakeFrom(std::string_view& bytes) {
  if (!TakeValue(bytes, count_) || !TakeValue(bytes, zeros_) || !TakeValue(bytes, not_finite_)) return false;
  if (!TakeValue(bytes, amax_)) return false;
  for (Octave& octave : octaves_) {
    uint8_t used = 0;
    if (!TakeValue(bytes, used)) return false;
    octave.assign(used != 0 ? kBinsPerOctave : 0, 0);
    for (uint64_t& count : octave) {
      if (!TakeValue(bytes, count)) return false;
    }
  }
  return true;
}

}  // namespace haypile
