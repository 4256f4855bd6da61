#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"
#include "planner/sglang_cells.h"
#include "planner/sglang_dtypes.h"
#include "planner/sglang_states.h"

namespace haypile {

// The pools of one pipeline stage.
struct SglangStage {
  int index = 0;
  SglangCells cells;
  SglangStates states;
  int64_t pool_bytes = 0;     // the request's, for this stage
  int64_t tokens_bytes = 0;   // of them, what tokens may take
  int64_t full_tokens = 0;    // max_total_num_tokens, after page and cap
  int64_t window_tokens = 0;  // of the window pool
  int64_t page = 1;
};

struct SglangSizes {
  std::vector<SglangStage> stages;
  size_t least = 0;      // the stage that decides
  int64_t profiled = 0;  // tokens before --max-total-tokens
  int64_t running = 0;   // max_running_requests
  std::string refusal;
  std::vector<std::string> log_lines;  // warnings that the engine prints about the limits

  const SglangStage& stage() const { return stages[least]; }
};

// Sizes the pools of every stage and takes the least. kInvalidArgument, kUnsupported: what the planner cannot tell.
Result<SglangSizes> SizeSglangPools(const ModelGeometry& model, const PlanRequest& request, const SglangDtype& dtype,
                                    int64_t context_len);

}  // namespace haypile
