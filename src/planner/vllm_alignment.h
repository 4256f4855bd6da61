#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/vllm_setup.h"

namespace haypile {

// What aligning block sizes leaves for the specs.
struct VllmAlignment {
  int64_t padded_state_page = 0;  // 0: states are not padded
  int64_t shared_page = 0;        // the page that windows are padded to beside skipped layers; 0: none
  int64_t state_block = 0;        // tokens between states
};

// Platform.update_block_size_for_backend: makes attention pages hold a state (`state_bytes`, 0: no states), then pages
// of the quantized dtype hold a skipped layer's. Changes setup.block_size and appends to plan.
Result<VllmAlignment> AlignVllmBlocks(const ModelGeometry& model, const PlanRequest& request,
                                      const std::vector<std::string>& skip_layers, int64_t state_bytes,
                                      VllmSetup& setup, PoolPlan& plan);

}  // namespace haypile
