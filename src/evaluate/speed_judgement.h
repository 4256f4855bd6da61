#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/compare_result.h"

namespace haypile {

// One timed figure: a median of times (or rates, already turned into times) with half its interquartile range.
struct TimedFigure {
  double time = 0;
  double spread = 0;
  int64_t samples = 0;
  std::optional<double> clock_mhz;
};

enum class SpeedFinding {
  kFaster,
  kSlower,
  kWithinSpread,   // the medians differ by no more than both spreads together, or by less than the smallest that counts
  kClockExplains,  // beyond the spread as timed, but not once the difference in clock is taken out
  kTooFewSamples,
};

struct SpeedComparison {
  double time_ratio = 1;              // candidate / baseline
  std::optional<double> clock_ratio;  // candidate / baseline, when it differs enough to be said
  SpeedFinding finding = SpeedFinding::kWithinSpread;
};

// The noise rule: a difference counts only when it exceeds the joint spread (both spreads added: the two middle halves
// do not touch) and 2 % of the baseline's, as timed and at equal clock (times multiplied by their clock) alike.
SpeedComparison CompareTimes(const TimedFigure& baseline, const TimedFigure& candidate);

struct SpeedJudgement {
  std::vector<std::string> lines;
  bool any_faster = false;
  bool much_slower = false;  // somewhere beyond Limit::kSlowerMuch
};
// Prefill of the longest prompt, decode at the deepest point of each number of streams, both measured on both sides.
SpeedJudgement JudgeSpeed(const CompareSpeed& baseline, const CompareSpeed& candidate);

}  // namespace haypile
