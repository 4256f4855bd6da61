#include "planner/haypile_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace haypile {
namespace {

// model_type of config.json and the architectures of GGUF files; src/checkpoint reads the same.
constexpr std::array<std::string_view, 6> kRunFamilies = {"llama", "mistral",     "qwen2",
                                                          "qwen3", "gemma3_text", "gemma3"};

bool Runs(const LayerGeometry& layer) {
  const bool kind = layer.cache == CacheKind::kFullAttention || layer.cache == CacheKind::kSlidingWindow;
  return kind && layer.head_dim_k == layer.head_dim_v;
}

// What spec needs to read skip layers: their number and windows.
ModelSpec WindowsOf(const ModelGeometry& model) {
  ModelSpec spec;
  spec.layer_count = static_cast<int>(model.layers.size());
  for (const LayerGeometry& layer : model.layers) spec.layers.push_back({layer.window, false});
  return spec;
}

Status CheckHeadDim(KvFormat format, int head_dim) {
  const KvFormatInfo& info = InfoOf(format);
  if (FitsHeadDim(info, head_dim)) return {};
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format("KV cache dtype '{}' stores blocks of {} elements, which do not divide this model's head dim "
                  "{}; choose a dtype whose block does",
                  info.name, info.block_elements == 0 ? 16 : info.block_elements, head_dim));
}

}  // namespace

std::string HaypileRefusal(const ModelGeometry& model) {
  const bool family = std::find(kRunFamilies.begin(), kRunFamilies.end(), model.model_type) != kRunFamilies.end() ||
                      std::find(kRunFamilies.begin(), kRunFamilies.end(), model.architecture) != kRunFamilies.end();
  if (!family) {
    return "Haypile's engine runs llama, mistral, qwen2, qwen3 and gemma3 models; this one is " +
           (model.model_type.empty() ? "of no named type" : model.model_type);
  }
  for (const LayerGeometry& layer : model.layers) {
    if (!Runs(layer)) return "Haypile's engine runs no layers of " + CacheKindName(layer.cache);
  }
  return {};
}

Result<KvPoolRequest> HaypilePoolRequest(const ModelGeometry& model, const PlanRequest& request) {
  HAYPILE_TRY_ASSIGN(const KvDtype dtype,
                     ParseKvDtype(request.kv_cache_dtype == "auto" ? "bf16" : request.kv_cache_dtype));
  std::string skip;
  for (const std::string& entry : request.skip_layers) skip += (skip.empty() ? "" : " ") + entry;
  HAYPILE_TRY_ASSIGN(const std::vector<bool> skipped, ParseSkipLayers(skip, WindowsOf(model)));
  KvPoolRequest pool;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerGeometry& layer = model.layers[i];
    const KvDtype own = skipped[i] ? KvDtype{} : dtype;
    HAYPILE_TRY(CheckHeadDim(own.k, layer.head_dim_k));
    HAYPILE_TRY(CheckHeadDim(own.v, layer.head_dim_v));
    pool.geometry.layers.push_back({own, layer.kv_heads, layer.head_dim_k, layer.window});
  }
  const int64_t page = request.block_size.value_or(pool.page_tokens);
  if (page < 1 || page > std::numeric_limits<int>::max()) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("--block-size {}: expected a positive number of tokens", page));
  }
  pool.page_tokens = static_cast<int>(page);
  pool.max_model_len = request.max_model_len > 0 ? request.max_model_len : model.max_positions;
  if (request.pool_bytes_per_rank.empty() || request.pool_bytes_per_rank.front() <= 0) {
    return Error(ErrorCode::kInvalidArgument, "the KV cache pool must have at least one byte");
  }
  pool.budget_bytes = request.pool_bytes_per_rank.front();
  return pool;
}

}  // namespace haypile
