#include "planner/rank_layers.h"

#include <fmt/format.h>

#include <algorithm>

namespace haypile {

Status CheckPoolAndRanks(std::string_view engine, const ModelGeometry& model, const PlanRequest& request) {
  if (request.pool_bytes_per_rank.empty()) {
    return Error(ErrorCode::kInvalidArgument, std::string(engine) + ": the pool's bytes are not known");
  }
  if (request.tensor_parallel < 1 || request.pipeline_parallel < 1) {
    return Error(ErrorCode::kInvalidArgument, "--tp and --pp must be at least 1");
  }
  const int64_t layers = model.layers.empty() ? 0 : model.layers.back().index + 1;
  if (request.pipeline_parallel > layers) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("--pp {}: the model has {} layers", request.pipeline_parallel, layers));
  }
  return {};
}

int KvHeadsOfRank(int kv_heads, int tensor_parallel) { return std::max(1, kv_heads / tensor_parallel); }

std::vector<std::vector<LayerGeometry>> LayersOfStages(const ModelGeometry& model, int pipeline_parallel) {
  std::vector<std::vector<LayerGeometry>> stages(pipeline_parallel);
  const int count = model.layers.empty() ? 0 : model.layers.back().index + 1;
  const int base = count / pipeline_parallel, longer = count % pipeline_parallel;
  for (const LayerGeometry& layer : model.layers) {
    const int in_longer = longer * (base + 1);
    const int stage =
        layer.index < in_longer ? layer.index / (base + 1) : longer + (layer.index - in_longer) / std::max(1, base);
    stages[stage].push_back(layer);
  }
  return stages;
}

StateBytes StateBytesOfRank(const StateShape& state, int tensor_parallel, int convolution_element_bytes,
                            int recurrence_element_bytes) {
  const int64_t tp = tensor_parallel;
  const int64_t columns = std::max(0, state.conv_kernel - 1);
  int64_t width = 0, recurrence = 0;  // of the whole model
  switch (state.kind) {
    case StateKind::kMamba1:
      width = state.intermediate;
      recurrence = state.intermediate * state.state_size;
      break;
    case StateKind::kMamba2: {
      // Every rank needs the whole groups of its heads: fewer groups than ranks are copied.
      const int64_t groups = state.groups % tp == 0 ? state.groups : tp;
      width = state.intermediate + 2 * groups * state.state_size;
      recurrence = int64_t{state.value_heads} * state.value_head_dim * state.state_size;
      if (recurrence == 0) recurrence = state.intermediate * state.state_size;
      break;
    }
    case StateKind::kGatedDeltaNet:
    case StateKind::kKda:
      width = 2 * int64_t{state.key_heads} * state.key_head_dim + int64_t{state.value_heads} * state.value_head_dim;
      recurrence = int64_t{state.value_heads} * state.value_head_dim * state.key_head_dim;
      break;
    case StateKind::kShortConv:
      width = state.intermediate;
      break;
  }
  return {columns * (width / tp) * convolution_element_bytes, recurrence / tp * recurrence_element_bytes};
}

bool KeepsTokens(const LayerGeometry& layer) {
  return layer.cache == CacheKind::kFullAttention || layer.cache == CacheKind::kMla || IsWindowed(layer);
}

bool IsWindowed(const LayerGeometry& layer) {
  return layer.cache == CacheKind::kSlidingWindow || layer.cache == CacheKind::kChunkedAttention;
}

int CopiesOfKvHeads(const ModelGeometry& model, int tensor_parallel) {
  int copies = 1;
  for (const LayerGeometry& layer : model.layers) {
    if (!KeepsTokens(layer) || layer.cache == CacheKind::kMla || layer.kv_heads <= 0) continue;
    copies = std::max(copies, tensor_parallel / layer.kv_heads);
  }
  return copies;
}

}  // namespace haypile
