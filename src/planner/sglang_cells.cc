#include "planner/sglang_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "planner/rank_layers.h"

namespace haypile {
namespace {

// Their configs name a window that SGLang's pool does not use.
constexpr std::array<std::string_view, 8> kOnePool = {"mistral",   "mixtral", "qwen2", "qwen2_moe",
                                                      "qwen3_moe", "qwen3",   "phi3",  "starcoder2"};
constexpr int kScaleBlock = 16;    // FP4
constexpr int kMxScaleBlock = 32;  // MXFP8
constexpr int kLatentQuantBlock = 128;

bool IsSparse(const LayerGeometry& layer) { return layer.cache == CacheKind::kMla && layer.index_head_dim > 0; }

Status CheckSglangLayer(const ModelGeometry& model, const LayerGeometry& layer) {
  std::string what;
  if (layer.cache == CacheKind::kCrossAttention) what = "cross attention";
  if (layer.cache == CacheKind::kMla && layer.compress_ratio != 1) what = "compressed latent rows (DeepSeek-V4)";
  if (what.empty()) return {};
  return Error(ErrorCode::kUnsupported, model.name + ": " + what + " in SGLang: its pool is not understood");
}

// FP8 rows of a sparse layer carry FP32 scales and a 16-bit RoPE part, except in the TensorRT-LLM kernels that
// Blackwell takes in newer versions.
bool PlainSparseRows(const PlanRequest& request) {
  const bool blackwell = request.gpu_sm == 100 || request.gpu_sm == 103;
  return blackwell && request.version >= kSglangNewNames;
}

int64_t LatentElements(const LayerGeometry& layer, const SglangDtype& dtype, const PlanRequest& request) {
  const int64_t plain = layer.kv_lora_rank + layer.rope_dim;
  if (!IsSparse(layer) || dtype.name != "fp8_e4m3" || PlainSparseRows(request)) return plain;
  return layer.kv_lora_rank + layer.kv_lora_rank / kLatentQuantBlock * 4 + layer.rope_dim * 2;
}

int64_t IndexerBytes(const LayerGeometry& layer) {
  if (!IsSparse(layer)) return 0;
  return layer.index_head_dim + layer.index_head_dim / kLatentQuantBlock * 4;
}

// Bytes of `elements` values as stored.
int64_t StoredBytes(int64_t elements, const SglangDtype& dtype) {
  switch (dtype.storage) {
    case SglangStorage::kPlain:
    case SglangStorage::kFp8:
      return elements * dtype.element_bytes;
    case SglangStorage::kMxfp8:
      return elements + elements / kMxScaleBlock;
    case SglangStorage::kFp4:
      break;
  }
  return elements / 2 + elements / kScaleBlock;
}

void NoteShape(int heads, int64_t k_elements, int64_t v_elements, SglangRows& rows) {
  if (rows.layers > 0) {
    rows.uniform =
        rows.uniform && rows.heads == heads && rows.k_elements == k_elements && rows.v_elements == v_elements;
    return;
  }
  rows.heads = heads;
  rows.k_elements = k_elements;
  rows.v_elements = v_elements;
}

void AddRow(const LayerGeometry& layer, const SglangDtype& dtype, const PlanRequest& request, SglangRows& rows) {
  if (layer.cache == CacheKind::kMla) {
    const int64_t elements = LatentElements(layer, dtype, request);
    NoteShape(1, elements, 0, rows);
    ++rows.layers;
    rows.k += StoredBytes(elements, dtype);
    rows.indexer += IndexerBytes(layer);
    return;
  }
  const int heads = KvHeadsOfRank(layer.kv_heads, request.tensor_parallel);
  NoteShape(heads, layer.head_dim_k, layer.head_dim_v, rows);
  ++rows.layers;
  rows.k += StoredBytes(int64_t{heads} * layer.head_dim_k, dtype);
  rows.v += StoredBytes(int64_t{heads} * layer.head_dim_v, dtype);
}

// The formula's terms before the layers are summed: it divides the sums.
struct FormulaSums {
  int64_t elements = 0;       // K and V of all layers
  int64_t key_elements = 0;   // K alone: FP4's scales and workspace count it twice, for V too
  int64_t latent = 0;         // of latent rows
  int64_t latent_scales = 0;  // per layer, divided before the sum
  int64_t indexer = 0;
  int64_t widest_keys = 0;  // of one layer
};

FormulaSums SumLayers(const std::vector<LayerGeometry>& layers, const SglangDtype& dtype, const PlanRequest& request,
                      bool windows) {
  FormulaSums sums;
  for (const LayerGeometry& layer : layers) {
    if (!KeepsTokens(layer) || IsWindowed(layer) != windows) continue;
    if (layer.cache == CacheKind::kMla) {
      sums.latent += LatentElements(layer, dtype, request);
      sums.latent_scales += (layer.kv_lora_rank + layer.rope_dim) / kScaleBlock;
      sums.indexer += IndexerBytes(layer);
      continue;
    }
    const int64_t heads = KvHeadsOfRank(layer.kv_heads, request.tensor_parallel);
    sums.elements += heads * (layer.head_dim_k + layer.head_dim_v);
    sums.key_elements += heads * layer.head_dim_k;
    sums.widest_keys = std::max(sums.widest_keys, heads * layer.head_dim_k);
  }
  return sums;
}

// The cell of a model without window pools. `workspace` is set to FP4's share of it.
int64_t DefaultCell(const FormulaSums& sums, const SglangDtype& dtype, int64_t& workspace) {
  int64_t cell = sums.elements * dtype.element_bytes;
  int64_t latent = sums.latent * dtype.element_bytes;
  if (dtype.storage == SglangStorage::kFp4) {
    workspace = sums.widest_keys * 2;
    cell = cell / 2 + sums.key_elements * 2 / kScaleBlock + workspace;
    latent = latent / 2 + sums.latent_scales;
  }
  if (dtype.storage == SglangStorage::kMxfp8) cell += sums.elements / kMxScaleBlock;
  return cell + latent + sums.indexer;
}

// With window pools the formula has no FP4 branch: it counts whole bytes.
int64_t WindowedCell(const FormulaSums& sums, const SglangDtype& dtype) {
  const int64_t scales = dtype.storage == SglangStorage::kMxfp8 ? sums.elements / kMxScaleBlock : 0;
  return (sums.elements + sums.latent) * dtype.element_bytes + scales + sums.indexer;
}

std::vector<LayerGeometry> DraftLayers(const ModelGeometry& model, const Speculative& speculative) {
  std::vector<LayerGeometry> layers;
  for (const LayerGeometry& layer : speculative.draft ? speculative.draft->layers : model.mtp_layers) {
    if (KeepsTokens(layer)) layers.push_back(layer);
  }
  return layers;
}

bool HasDraftPool(const std::string& method) { return method != "ngram" && method != "suffix"; }
bool PricesDraftExactly(const std::string& method) { return method == "dflash" || method == "dspark"; }

// The drafter's share: EAGLE, MTP and small models at the target's bytes per layer, DFLASH at its own.
void AddDraft(const ModelGeometry& model, const SglangDtype& dtype, const PlanRequest& request, SglangCells& cells) {
  if (!request.speculative || !HasDraftPool(LowerCase(request.speculative->method))) return;
  const Speculative& speculative = *request.speculative;
  const std::vector<LayerGeometry> layers = DraftLayers(model, speculative);
  cells.draft_layers = std::max<int>(1, static_cast<int>(layers.size()));
  const SglangDtype draft_dtype =
      speculative.draft_kv_dtype.empty() ? dtype : ResolveSglangDtype(model, speculative.draft_kv_dtype, request);
  SglangRows rows;
  int windows = 0;
  for (const LayerGeometry& layer : layers) {
    AddRow(layer, draft_dtype, request, rows);
    windows += IsWindowed(layer) ? 1 : 0;
  }
  cells.draft_stored = rows.total();
  if (PricesDraftExactly(LowerCase(speculative.method))) {
    cells.draft_full = rows.total();
    return;
  }
  if (cells.windowed()) {
    const int full = cells.draft_layers - windows;
    if (cells.full.layers > 0) cells.draft_full = cells.full_cell / cells.full.layers * full;
    cells.draft_window = cells.window_cell / cells.window.layers * windows;
    return;
  }
  if (cells.full.layers == 0) return;
  const double scaled =
      static_cast<double>(cells.full_cell) * (1 + static_cast<double>(cells.draft_layers) / cells.full.layers);
  cells.draft_full = static_cast<int64_t>(scaled) - cells.full_cell;
}

}  // namespace

bool SglangSeparatesWindows(const ModelGeometry& model) {
  const bool windows = std::any_of(model.layers.begin(), model.layers.end(), IsWindowed);
  return windows && std::find(kOnePool.begin(), kOnePool.end(), model.model_type) == kOnePool.end();
}

int64_t SglangPageSize(const ModelGeometry& model, const SglangDtype& dtype, const PlanRequest& request) {
  if (request.block_size) return *request.block_size;
  if (std::any_of(model.layers.begin(), model.layers.end(), IsSparse)) return 64;
  return dtype.name == "nvfp4" ? 64 : 1;  // the FP4 decode of trtllm_mha takes pages of 16, 32 or 64
}

Result<SglangCells> CellsOfStage(const ModelGeometry& model, const std::vector<LayerGeometry>& stage,
                                 const SglangDtype& dtype, const PlanRequest& request) {
  SglangCells cells;
  std::vector<LayerGeometry> layers = stage;
  const bool separate = SglangSeparatesWindows(model);
  for (LayerGeometry& layer : layers) {
    HAYPILE_TRY(CheckSglangLayer(model, layer));
    if (!KeepsTokens(layer)) continue;
    if (!separate && IsWindowed(layer)) layer.cache = CacheKind::kFullAttention;
    cells.latent = cells.latent || layer.cache == CacheKind::kMla;
    if (IsWindowed(layer)) cells.window_tokens = std::max(cells.window_tokens, layer.window);
    AddRow(layer, dtype, request, IsWindowed(layer) ? cells.window : cells.full);
  }
  const FormulaSums full = SumLayers(layers, dtype, request, false);
  if (cells.windowed()) {
    cells.full_cell = WindowedCell(full, dtype);
    cells.window_cell = WindowedCell(SumLayers(layers, dtype, request, true), dtype);
  } else {
    cells.full_cell = DefaultCell(full, dtype, cells.workspace);
  }
  AddDraft(model, dtype, request, cells);
  // A model of windows alone has no full pool for the ratio to refer to.
  const double ratio = cells.full.layers == 0 ? 1.0 : request.swa_full_tokens_ratio;
  cells.cell = static_cast<double>(cells.full_cell + cells.draft_full) +
               ratio * static_cast<double>(cells.window_cell + cells.draft_window);
  return cells;
}

}  // namespace haypile
