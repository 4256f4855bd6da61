#include "planner/sglang_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/rank_layers.h"

namespace haypile {
namespace {

constexpr const char* kNotEnough = "Not enough memory. Please try to increase --mem-fraction-static.";

int64_t Aligned(int64_t tokens, int64_t page) { return tokens / page * page; }

// Tokens of both pools for `full` tokens of the first.
void SetTokens(const PlanRequest& request, int64_t full, SglangStage& stage) {
  stage.full_tokens = Aligned(full, stage.page);
  stage.window_tokens = 0;
  if (!stage.cells.windowed()) return;
  const double ratio = stage.cells.full.layers == 0 ? 1.0 : request.swa_full_tokens_ratio;
  stage.window_tokens = Aligned(static_cast<int64_t>(static_cast<double>(stage.full_tokens) * ratio), stage.page);
}

// States come off the pool when it holds them; else the pool is all for tokens.
void SplitStates(const ModelGeometry& model, const std::vector<LayerGeometry>& layers, const PlanRequest& request,
                 SglangStage& stage) {
  const bool inside = request.pool_includes_states;
  stage.states =
      PlanSglangStates(layers, request, inside ? stage.pool_bytes : 0, stage.pool_bytes, model.state_dtype_bytes);
  stage.tokens_bytes = stage.pool_bytes - (inside ? stage.states.charged : 0);
}

int64_t ProfiledTokens(const SglangStage& stage, const PlanRequest& request, int64_t context_len) {
  const int64_t bytes = std::max<int64_t>(0, stage.tokens_bytes);
  if (stage.cells.cell <= 0) return request.max_total_tokens.value_or(context_len);  // states alone
  if (stage.cells.windowed()) return static_cast<int64_t>(static_cast<double>(bytes) / stage.cells.cell);
  return bytes / (stage.cells.full_cell + stage.cells.draft_full);
}

std::string RefusalText(const SglangStage& stage, const PlanRequest& request) {
  if (!stage.states.refusal.empty() && request.pool_includes_states) return stage.states.refusal;
  if (stage.full_tokens <= 0) return kNotEnough;
  if (stage.cells.windowed() && stage.cells.window_tokens + stage.page >= stage.window_tokens) {
    return fmt::format(
        "SWA pool ({} tokens) cannot hold even one request: the prefill admission floor is "
        "sliding_window_size ({}) + page_size ({}). Increase --swa-full-tokens-ratio or the total KV "
        "budget.",
        stage.window_tokens, stage.cells.window_tokens, stage.page);
  }
  return {};
}

// max_running_requests: as asked or from the tokens, then what tokens and states hold.
void LimitRequests(const PlanRequest& request, int64_t context_len, SglangSizes& sizes) {
  const SglangStage& stage = sizes.stage();
  const int64_t tokens = stage.full_tokens;
  int64_t running = 0;
  if (request.max_running_requests) {
    running = std::max<int64_t>(1, *request.max_running_requests / std::max(1, request.data_parallel));
  } else {
    const double share = static_cast<double>(tokens) / static_cast<double>(std::max<int64_t>(1, context_len)) * 512;
    running = std::clamp<int64_t>(static_cast<int64_t>(std::min(share, 1e9)), 2048, 4096);
  }
  const int64_t asked = running;
  running = std::min(running, std::max<int64_t>(1, tokens / 2));
  const bool known_slots = request.pool_includes_states || stage.states.explicit_slots;
  if (stage.states.any() && known_slots) {
    running = std::min(running, stage.states.slots / stage.states.requests_per_slot_ratio);
  }
  if (request.max_running_requests && running < asked) {
    sizes.log_lines.push_back(
        fmt::format("max_running_requests was reduced from the requested {} to {} (per dp worker) "
                    "due to the available KV cache capacity.",
                    asked, running));
  }
  sizes.running = running;
}

Status CheckRequest(const ModelGeometry& model, const PlanRequest& request) {
  HAYPILE_TRY(CheckPoolAndRanks("SGLang", model, request));
  if (request.decode_context_parallel > 1) {
    return Error(ErrorCode::kUnsupported, "SGLang with decode context parallelism: its pools are not understood");
  }
  if (request.block_size && *request.block_size < 1) {
    return Error(ErrorCode::kInvalidArgument, fmt::format("--page-size {}: expected at least 1", *request.block_size));
  }
  for (const double ratio : {request.swa_full_tokens_ratio, request.mamba_full_memory_ratio}) {
    if (ratio > 0 && ratio <= 1000) continue;
    return Error(
        ErrorCode::kInvalidArgument,
        fmt::format("--swa-full-tokens-ratio and --mamba-full-memory-ratio: {} is not a ratio above 0", ratio));
  }
  return {};
}

}  // namespace

Result<SglangSizes> SizeSglangPools(const ModelGeometry& model, const PlanRequest& request, const SglangDtype& dtype,
                                    int64_t context_len) {
  HAYPILE_TRY(CheckRequest(model, request));
  SglangSizes sizes;
  const auto layers = LayersOfStages(model, request.pipeline_parallel);
  int64_t least = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    SglangStage stage;
    stage.index = static_cast<int>(i);
    HAYPILE_TRY_ASSIGN(stage.cells, CellsOfStage(model, layers[i], dtype, request));
    const auto& pools = request.pool_bytes_per_rank;
    stage.pool_bytes = pools[std::min(i, pools.size() - 1)];
    stage.page = SglangPageSize(model, dtype, request);
    SplitStates(model, layers[i], request, stage);
    const int64_t tokens = Aligned(ProfiledTokens(stage, request, context_len), stage.page);
    // A stage without token layers follows the others.
    const bool decides = stage.cells.cell > 0 || layers.size() == 1;
    if (decides && (sizes.stages.empty() || least == 0 || tokens < least)) {
      least = tokens;
      sizes.least = i;
    }
    sizes.stages.push_back(std::move(stage));
  }
  sizes.profiled = least;
  int64_t tokens = least;
  if (request.max_total_tokens) {
    if (*request.max_total_tokens > tokens) {
      sizes.log_lines.push_back(
          fmt::format("max_total_tokens={} is larger than the profiled value {}. Use the profiled "
                      "value instead.",
                      *request.max_total_tokens, tokens));
    }
    tokens = std::min(tokens, *request.max_total_tokens);
  }
  for (SglangStage& stage : sizes.stages) SetTokens(request, tokens, stage);
  sizes.refusal = RefusalText(sizes.stage(), request);
  LimitRequests(request, context_len, sizes);
  return sizes;
}

}  // namespace haypile
