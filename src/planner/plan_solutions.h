#pragma once

#include <vector>

#include "base/result.h"
#include "planner/plan_job.h"

namespace haypile {

// The answers to job.questions for each row, in the questions' order. job.request holds the pool's bytes.
// kInvalidArgument: a question that lacks what it stands on ("gpus" without a device, "replicas" without a load).
Result<std::vector<PlanSolution>> SolvePlan(const PlanJob& job, const std::vector<PlanRow>& rows);

}  // namespace haypile
