#pragma once

#include <vector>

#include "base/json_fwd.h"
#include "evaluate/golden.h"
#include "evaluate/row_divergence.h"
#include "report/compare_result.h"

namespace haypile {

// Step payloads of a comparison's state file, there and back. Readers return false for JSON of another shape, which
// then counts as a step not done.
using LaneRows = std::vector<std::vector<RowDivergence>>;
Json RowsToJson(const LaneRows& lanes);
bool RowsFromJson(const Json& json, LaneRows& lanes);

// Passed or failed, by lane and item.
using LanePasses = std::vector<std::vector<bool>>;
Json PassesToJson(const LanePasses& lanes);
bool PassesFromJson(const Json& json, LanePasses& lanes);

using LaneGolden = std::vector<std::vector<GoldenOutput>>;
Json GoldenToJson(const LaneGolden& lanes);
bool GoldenFromJson(const Json& json, LaneGolden& lanes);

Json SpeedToJson(const std::vector<CompareSpeed>& lanes);
bool SpeedFromJson(const Json& json, std::vector<CompareSpeed>& lanes);

}  // namespace haypile
