#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/statistics.h"
#include "evaluate/telling.h"
#include "report/compare_result.h"

namespace haypile {

// The global FP32 scales of K or of V that a run used, over all layers and heads.
struct ScaleUse {
  double smallest = 1;
  double largest = 1;
  // Scale in use / the scale that the largest measured value asks for (amax / the format's largest number): its least
  // and greatest over layers and heads. 1 is amax calibration.
  std::optional<Interval> ratio_to_amax;
};

// What a CompareResult does not carry and a verdict is sharper with. All of it is optional.
struct RunEvidence {
  std::string kv_cache_dtype;  // of the run it belongs to
  // Passed and failed by item, under the baseline and under this dtype; by the task's name, recall as "recall".
  std::vector<std::pair<std::string, PairedCounts>> pairs;
  std::optional<ScaleUse> k_scale, v_scale;  // absent for formats without a global scale
};

// A row for each run but the baseline's, and one sentence over all. Rules and limits: docs/verdict.md. Uses no figure
// that is absent; what is absent can only make a verdict less sure. Without the baseline's run every row is
// inconclusive.
CompareVerdict Judge(const CompareResult& result, std::span<const RunEvidence> evidence = {});

// What nobody should conclude from this comparison: parts that were never tried, contexts not reached, tasks that tell
// nothing, parts skipped.
std::vector<std::string> NotMeasured(const CompareResult& result);

// Why scales like these spoil a cache, naming the value; nothing when they are 1.0 or amax-like.
std::optional<std::string> WhyScaleIsSuspect(const ScaleUse& use);

}  // namespace haypile
