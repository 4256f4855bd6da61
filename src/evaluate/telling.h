#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace haypile {

// Passes and failures of the same items under two dtypes.
struct PairedCounts {
  int64_t total = 0;
  int64_t baseline_passed = 0;
  int64_t candidate_passed = 0;
  int64_t lost = 0;    // passed under the baseline only
  int64_t gained = 0;  // passed under the candidate only

  void Add(bool baseline, bool candidate);
  bool operator==(const PairedCounts&) const = default;
};
// The vectors must be of equal length.
PairedCounts CountPairs(const std::vector<bool>& baseline, const std::vector<bool>& candidate);

// Why these items cannot tell the dtypes apart; nothing when they can.
std::optional<std::string> WhyTellsNothing(const PairedCounts& counts);

}  // namespace haypile
