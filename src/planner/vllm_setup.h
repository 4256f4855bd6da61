#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"
#include "planner/pool_plan.h"
#include "planner/vllm_backends.h"
#include "planner/vllm_dtypes.h"
#include "planner/vllm_specs.h"
#include "planner/vllm_versions.h"

namespace haypile {

// A request with everything resolved that vLLM decides before it looks at pages.
struct VllmSetup {
  VllmRules rules;
  VllmKvDtype dtype;        // of the target's cache
  VllmKvDtype draft_dtype;  // of the drafter's
  VllmBackend backend;
  bool latent = false;   // MLA
  bool states = false;   // has recurrent layers
  bool hybrid = false;   // recurrent and attention layers
  bool windows = false;  // sliding or chunked layers
  bool hybrid_manager = true;
  bool prefix_caching = true;
  bool user_block = false;
  int64_t block_size = 0;
  int64_t batched_tokens = 0;
  int batches_in_flight = 1;
  bool auto_fit = false;
  int conv_bytes = 2;  // width of the convolution's columns
  int ssm_bytes = 2;   // width of the recurrent state
  VllmRequestShape shape;
};

// Fills `plan` with what is known so far (dtype, log lines, warnings, derivation). A request that vLLM refuses before
// it builds layers leaves plan.refused set. kInvalidArgument, kUnsupported as PlanVllmPool.
Result<VllmSetup> ResolveVllmSetup(const ModelGeometry& model, const PlanRequest& request, PoolPlan& plan);

std::string VllmModelDtypeName(const ModelGeometry& model);  // "bfloat16", "float32"

}  // namespace haypile
