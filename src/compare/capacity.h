#pragma once

#include <string>
#include <vector>

#include "compare/lane.h"
#include "compare/request.h"
#include "report/compare_result.h"

namespace haypile {

// The lanes of a request for a model: geometry and scales of every dtype, all checked. `own` are the model's scales.
Result<std::vector<Lane>> MakeLanes(const ModelSpec& spec, const CompareRequest& request,
                                    const CheckpointKvScales& own = {});

// What each lane buys in the byte budget, first lane the baseline: bytes per token, pool tokens, requests of full
// length, the ratios and the reason for a gap between them. kOutOfBudget when a lane's pool does not hold one request.
Result<std::vector<CompareRun>> PlanCapacity(const ModelSpec& spec, const CompareRequest& request,
                                             const std::vector<Lane>& lanes);

}  // namespace haypile
