#pragma once

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"
#include "spec/kv_pool_plan.h"

namespace haypile {

// Why Haypile's engine does not run this model; empty when it does.
std::string HaypileRefusal(const ModelGeometry& model);

// The request that Haypile's cache would be created with, for a model that it runs: kv_cache_dtype ("auto": bf16),
// skip_layers, block_size, max_model_len (0: the model's) and pool_bytes_per_rank[0]. kInvalidArgument names the dtype,
// layer or head dim that does not fit.
Result<KvPoolRequest> HaypilePoolRequest(const ModelGeometry& model, const PlanRequest& request);

}  // namespace haypile
