#include "planner/trtllm_cells.h"

#include <fmt/format.h>

#include "planner/rank_layers.h"

namespace haypile {
namespace {

constexpr int kNvfp4Block = 16;
constexpr int kIndexerBlock = 128;  // elements of an indexer row that share one FP32 scale

Status CheckTrtllmLayer(const ModelGeometry& model, const LayerGeometry& layer) {
  if (layer.cache != CacheKind::kMla || layer.compress_ratio == 1) return {};
  return Error(ErrorCode::kUnsupported,
               model.name + ": compressed latent rows (DeepSeek-V4) in TensorRT-LLM: their pools are not understood");
}

int64_t ElementsOf(const LayerGeometry& layer, const PlanRequest& request) {
  if (layer.cache == CacheKind::kMla) return layer.kv_lora_rank + layer.rope_dim;
  return int64_t{KvHeadsOfRank(layer.kv_heads, request.tensor_parallel)} * (layer.head_dim_k + layer.head_dim_v);
}

int64_t StateBytesPerRequest(const LayerGeometry& layer, const PlanRequest& request, int state_dtype_bytes) {
  const bool narrow = request.mamba_ssm_cache_dtype == "bfloat16" || request.mamba_ssm_cache_dtype == "float16";
  const int automatic = state_dtype_bytes > 0 ? state_dtype_bytes : 2;  // "auto" is the model's dtype
  const int recurrence = request.mamba_ssm_cache_dtype == "float32" ? 4 : narrow ? 2 : automatic;
  const StateBytes bytes = StateBytesOfRank(layer.state, request.tensor_parallel, 2, recurrence);
  return bytes.convolution + bytes.recurrence;
}

Status AddRow(const ModelGeometry& model, const LayerGeometry& layer, const TrtllmDtype& dtype,
              const PlanRequest& request, TrtllmCells& cells) {
  const int64_t elements = ElementsOf(layer, request);
  ++cells.layers;
  cells.elements += elements;
  cells.latent = cells.latent || layer.cache == CacheKind::kMla;
  cells.windows = cells.windows || IsWindowed(layer);
  if (layer.index_head_dim > 0) {
    cells.indexer += layer.index_head_dim + layer.index_head_dim / kIndexerBlock * 4;
  }
  if (dtype.storage != TrtllmStorage::kNvfp4) {
    cells.data += elements * dtype.element_bytes;
    return {};
  }
  if (elements % kNvfp4Block != 0) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} elements a token and layer do not fill NVFP4's blocks of {}", model.name, elements,
                             kNvfp4Block));
  }
  cells.data += elements / 2;
  cells.scales += elements / kNvfp4Block;
  return {};
}

}  // namespace

Result<TrtllmCells> TrtllmCellsOfStage(const ModelGeometry& model, const std::vector<LayerGeometry>& stage,
                                       const TrtllmDtype& dtype, const PlanRequest& request) {
  TrtllmCells cells;
  for (const LayerGeometry& layer : stage) {
    HAYPILE_TRY(CheckTrtllmLayer(model, layer));
    if (layer.cache == CacheKind::kStateSpace) {
      cells.state += StateBytesPerRequest(layer, request, model.state_dtype_bytes);
    }
    if (layer.cache == CacheKind::kCrossAttention) {
      return Error(ErrorCode::kUnsupported,
                   model.name + ": cross attention in TensorRT-LLM: its second pool is not understood");
    }
    if (KeepsTokens(layer)) HAYPILE_TRY(AddRow(model, layer, dtype, request, cells));
  }
  return cells;
}

}  // namespace haypile
