#pragma once

#include <vector>

#include "planner/pool_plan.h"
#include "planner/vllm_groups.h"
#include "planner/vllm_layers.h"
#include "planner/vllm_setup.h"

namespace haypile {

// The pool of the rank that decides, as the report needs it.
struct VllmPoolNumbers {
  int64_t memory = 0;           // bytes of the rank that decides the number of blocks
  int64_t bytes_per_block = 0;  // on that rank
  std::vector<bool> on_rank;    // which layers it holds
  int64_t num_blocks = 0;
  int64_t blocks_per_request = 0;  // R
};

// The numbers that vLLM prints, their log lines and derivation.
void ReportVllmPool(const VllmSetup& setup, const VllmGrouping& grouping, const VllmPoolNumbers& numbers,
                    const PlanRequest& request, PoolPlan& plan);

// Bytes per token and request, and where the pool's bytes go.
void ShareVllmPool(const VllmSetup& setup, const VllmGrouping& grouping, const std::vector<VllmLayer>& layers,
                   const VllmPoolNumbers& numbers, PoolPlan& plan);

// What a user should know before starting.
void WarnOfVllmPool(const ModelGeometry& model, const VllmSetup& setup, const VllmGrouping& grouping,
                    const VllmPoolNumbers& numbers, const PlanRequest& request, PoolPlan& plan);

}  // namespace haypile
