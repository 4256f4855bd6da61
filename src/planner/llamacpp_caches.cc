#include "planner/llamacpp_caches.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace haypile {
namespace {

// Model types and GGUF architectures whose window llama.cpp does not use: their caches hold every token.
constexpr std::array<std::string_view, 14> kWindowIgnored = {
    "llama",      "mistral",   "mistral3", "ministral", "mixtral", "qwen2",  "qwen2_vl",
    "qwen2_5_vl", "qwen2_moe", "qwen3",    "qwen3_moe", "phi3",    "phimoe", "starcoder2"};

bool IgnoresWindow(const ModelGeometry& model) {
  return std::any_of(kWindowIgnored.begin(), kWindowIgnored.end(),
                     [&](std::string_view name) { return name == model.model_type || name == model.architecture; });
}

bool HasWindow(const LayerGeometry& layer) {
  return layer.cache == CacheKind::kSlidingWindow || layer.cache == CacheKind::kChunkedAttention;
}

Status CheckLayer(const ModelGeometry& model, const LayerGeometry& layer) {
  std::string what;
  if (layer.cache == CacheKind::kCrossAttention) what = "cross attention";
  if (layer.cache == CacheKind::kMla && (layer.index_head_dim > 0 || layer.compress_ratio != 1)) {
    what = "sparse attention over an indexer or compressed rows";
  }
  if (what.empty()) return {};
  return Error(ErrorCode::kUnsupported,
               model.name + ": " + what + " in llama.cpp: its cache is not understood, so no plan is given");
}

// Elements of one cell's K (V) of one layer. MLA keeps one latent row as K and no V.
int64_t KeyWidth(const LayerGeometry& layer) {
  if (layer.cache == CacheKind::kMla) return layer.kv_lora_rank + layer.rope_dim;
  return int64_t{layer.kv_heads} * layer.head_dim_k;
}
int64_t ValueWidth(const LayerGeometry& layer) {
  return layer.cache == CacheKind::kMla ? 0 : int64_t{layer.kv_heads} * layer.head_dim_v;
}

// Without flash attention V lies transposed, every layer as wide as the widest.
int64_t WidestValue(const ModelGeometry& model) {
  int64_t widest = 0;
  for (const LayerGeometry& layer : model.layers) {
    if (layer.cache != CacheKind::kNone && layer.cache != CacheKind::kStateSpace)
      widest = std::max(widest, ValueWidth(layer));
  }
  return widest;
}

// FP32 elements of the convolution's columns and of the recurrent state of one layer and sequence.
int64_t ConvolutionElements(const StateShape& state) {
  const int64_t columns = state.conv_kernel - 1;
  switch (state.kind) {
    case StateKind::kMamba1:
    case StateKind::kShortConv:
      return columns * state.intermediate;
    case StateKind::kMamba2:
      return columns * (state.intermediate + 2 * int64_t{state.groups} * state.state_size);
    case StateKind::kGatedDeltaNet:
    case StateKind::kKda:
      break;
  }
  return columns *
         (2 * int64_t{state.key_heads} * state.key_head_dim + int64_t{state.value_heads} * state.value_head_dim);
}

int64_t RecurrentElements(const StateShape& state) {
  switch (state.kind) {
    case StateKind::kShortConv:
      return 0;
    case StateKind::kMamba1:
    case StateKind::kMamba2:
      return state.intermediate * state.state_size;
    case StateKind::kGatedDeltaNet:
    case StateKind::kKda:
      break;
  }
  return int64_t{state.value_heads} * state.value_head_dim * state.key_head_dim;
}

// A window's cells hold the window of every sequence of the stream and one micro-batch.
int64_t WindowCells(const LlamacppContext& context, int window, bool swa_full) {
  if (swa_full) return context.n_ctx_seq;
  const int64_t sequences = context.unified ? context.n_seq_max : 1;
  return PaddedCells(std::min(context.n_ctx_seq, window * sequences + context.n_ubatch));
}

void AddState(const LayerGeometry& layer, LlamacppCache& cache) {
  cache.k_bytes_per_cell += 4 * ConvolutionElements(layer.state);
  cache.v_bytes_per_cell += 4 * RecurrentElements(layer.state);
}

}  // namespace

int64_t LlamacppCaches::bytes() const {
  int64_t sum = 0;
  for (const LlamacppCache& cache : caches) sum += cache.bytes();
  return sum;
}

Result<LlamacppCaches> BuildLlamacppCaches(const ModelGeometry& model, const LlamacppContext& context,
                                           const LlamacppType& k, const LlamacppType& v, bool swa_full) {
  LlamacppCaches result;
  LlamacppCache full{LlamacppCache::Kind::kFull, context.n_ctx_seq, 0, context.streams(), 0, 0};
  LlamacppCache window{LlamacppCache::Kind::kWindow, 0, 0, context.streams(), 0, 0};
  LlamacppCache state{LlamacppCache::Kind::kState, context.n_seq_max, 0, 1, 0, 0};
  const bool ignores_window = IgnoresWindow(model);
  const int64_t widest_value = WidestValue(model);
  for (const LayerGeometry& layer : model.layers) {
    HAYPILE_TRY(CheckLayer(model, layer));
    if (layer.cache == CacheKind::kNone) continue;
    if (layer.cache == CacheKind::kStateSpace) {
      AddState(layer, state);
      continue;
    }
    const bool windowed = HasWindow(layer) && !ignores_window;
    result.ignored_windows = result.ignored_windows || (HasWindow(layer) && ignores_window);
    if (windowed) result.window = std::max(result.window, layer.window);
    LlamacppCache& cache = windowed ? window : full;
    ++cache.layers;
    cache.k_bytes_per_cell += k.RowBytes(KeyWidth(layer));
    const bool padded = !context.flash_attention && layer.cache != CacheKind::kMla;
    cache.v_bytes_per_cell += v.RowBytes(padded ? widest_value : ValueWidth(layer));
  }
  result.windowed = window.layers > 0;
  if (full.layers > 0 || result.windowed) result.caches.push_back(full);
  if (result.windowed) {
    window.cells = WindowCells(context, result.window, swa_full);
    result.caches.push_back(window);
  }
  if (state.k_bytes_per_cell + state.v_bytes_per_cell > 0) {
    state.layers = static_cast<int>(model.layers.empty() ? 0 : model.layers.back().index + 1);
    result.caches.push_back(state);
  }
  return result;
}

std::vector<std::string> LlamacppCacheLines(const LlamacppCache& cache, const LlamacppContext& context,
                                            const LlamacppType& k, const LlamacppType& v, const std::string& device) {
  // The buffer's size is divided in double, the summary's in float, as the engine does.
  const auto mib = [](int64_t bytes) { return static_cast<float>(bytes) / (1024.0f * 1024.0f); };
  std::vector<std::string> lines;
  const bool state = cache.kind == LlamacppCache::Kind::kState;
  const char* owner = state ? "llama_memory_recurrent" : "llama_kv_cache";
  if (cache.bytes() > 0) {
    lines.push_back(fmt::format("{}: {:>10} {} buffer size = {:8.2f} MiB", owner, device, state ? "RS" : "KV",
                                static_cast<double>(cache.bytes()) / 1024.0 / 1024.0));
  }
  if (state) {
    lines.push_back(
        fmt::format("{}: size = {:7.2f} MiB ({:6} cells, {:3} layers, {:2} seqs {:2} rs_seq), R (f32): "
                    "{:7.2f} MiB, S (f32): {:7.2f} MiB",
                    owner, mib(cache.bytes()), cache.cells, cache.layers, context.n_seq_max, 0, mib(cache.k_bytes()),
                    mib(cache.v_bytes())));
    return lines;
  }
  lines.push_back(
      fmt::format("{}: size = {:7.2f} MiB ({:6} cells, {:3} layers, {:2}/{} seqs), K ({}): {:7.2f} MiB, V "
                  "({}): {:7.2f} MiB",
                  owner, mib(cache.bytes()), cache.cells, cache.layers, context.n_seq_max, cache.streams, k.name,
                  mib(cache.k_bytes()), v.name, mib(cache.v_bytes())));
  return lines;
}

}  // namespace haypile
