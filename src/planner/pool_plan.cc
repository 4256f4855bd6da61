#include "planner/pool_plan.h"

#include "base/check.h"

namespace haypile {

Result<PoolPlan> PlanPool(const ModelGeometry& model, const PlanRequest& request) {
  switch (request.engine) {
    case EngineKind::kVllm:
      return PlanVllmPool(model, request);
    case EngineKind::kSglang:
      return PlanSglangPool(model, request);
    case EngineKind::kTrtllm:
      return PlanTrtllmPool(model, request);
    case EngineKind::kLlamacpp:
      return PlanLlamacppPool(model, request);
    case EngineKind::kHaypile:
      return PlanHaypilePool(model, request);
  }
  HAYPILE_CHECK(false);
  return Error(ErrorCode::kInternal, "unknown engine");
}

}  // namespace haypile
