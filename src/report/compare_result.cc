#include "report/compare_result.h"

namespace haypile {

const CompareRun* CompareResult::BaselineRun() const {
  for (const CompareRun& run : runs) {
    if (run.kv_cache_dtype == baseline) return &run;
  }
  return nullptr;
}

std::string_view NameOf(CompareEffort effort) {
  switch (effort) {
    case CompareEffort::kQuick:
      return "quick";
    case CompareEffort::kStandard:
      return "standard";
    case CompareEffort::kFull:
      return "full";
  }
  return "standard";
}

std::string_view NameOf(CompareOutcome outcome) {
  switch (outcome) {
    case CompareOutcome::kShip:
      return "ship";
    case CompareOutcome::kNoShip:
      return "no-ship";
    case CompareOutcome::kInconclusive:
      return "inconclusive";
  }
  return "inconclusive";
}

}  // namespace haypile
