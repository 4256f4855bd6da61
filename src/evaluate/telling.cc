#include "evaluate/telling.h"

#include "base/check.h"

namespace haypile {

void PairedCounts::Add(bool baseline, bool candidate) {
  ++total;
  baseline_passed += baseline;
  candidate_passed += candidate;
  lost += baseline && !candidate;
  gained += candidate && !baseline;
}

PairedCounts CountPairs(const std::vector<bool>& baseline, const std::vector<bool>& candidate) {
  HAYPILE_CHECK_EQ(baseline.size(), candidate.size());
  PairedCounts counts;
  for (size_t i = 0; i < baseline.size(); ++i) counts.Add(baseline[i], candidate[i]);
  return counts;
}

std::optional<std::string> WhyTellsNothing(const PairedCounts& counts) {
  if (counts.total == 0) return "it was not asked";
  if (counts.baseline_passed == 0) return "the baseline itself never passes";
  if (counts.baseline_passed == counts.total && counts.lost == 0) {
    return "the baseline always passes and so does this dtype: too easy to tell them apart";
  }
  return std::nullopt;
}

}  // namespace haypile
