#include "planner/vllm_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "planner/number_text.h"
#include "planner/vllm_alignment.h"

namespace haypile {
namespace {

constexpr int kIndexerScaleGroup = 128;  // values of the sparse indexer's row that share one float32
constexpr int kBoundaryLayers = 2;       // that turboquant leaves alone at either end of a dense model

int DecoderLayers(const ModelGeometry& model) {
  int count = 0;
  for (const LayerGeometry& layer : model.layers) count = std::max(count, layer.index + 1);
  return count;
}

// Where vLLM cuts `layers` into `stages`: the rest goes to the stages before the last, from the back.
std::vector<int> StageOfLayer(int layers, int stages) {
  std::vector<int> sizes(stages, layers / stages);
  for (int i = 0; i < layers % stages; ++i) sizes[std::max(0, stages - 2 - i)] += 1;
  std::vector<int> stage_of;
  for (int stage = 0; stage < stages; ++stage) stage_of.insert(stage_of.end(), sizes[stage], stage);
  return stage_of;
}

// Command-R's window counts the token itself besides (models/commandr.py).
int WindowOf(const LayerGeometry& layer, const ModelGeometry& model) {
  const bool one_more =
      model.architecture == "Cohere2ForCausalLM" || model.architecture == "Cohere2VisionForConditionalGeneration";
  return layer.window + (one_more && layer.cache == CacheKind::kSlidingWindow ? 1 : 0);
}

std::vector<std::string> SkipLayers(const ModelGeometry& model, const PlanRequest& request, const VllmSetup& setup) {
  std::vector<std::string> skip = request.skip_layers;
  if (setup.dtype.mode != VllmKvMode::kTurboquant || setup.hybrid) return skip;
  const int layers = DecoderLayers(model);
  const int boundary = std::min(kBoundaryLayers, layers / 2);
  for (int i = 0; i < boundary; ++i) {
    for (const int layer : {i, layers - 1 - i}) {
      const std::string name = std::to_string(layer);
      if (std::find(skip.begin(), skip.end(), name) == skip.end()) skip.push_back(name);
    }
  }
  return skip;
}

// Builds specs one by one; holds what they share.
class LayerBuilder {
 public:
  LayerBuilder(const PlanRequest& request, const VllmSetup& setup, std::vector<std::string> skip,
               const VllmAlignment& alignment, PoolPlan& plan)
      : request_(request),
        setup_(setup),
        skip_(std::move(skip)),
        alignment_(alignment),
        plan_(plan),
        used_(skip_.size(), false) {}

  // Appends the caches of one entry of `model`'s layers.
  Status Add(const ModelGeometry& model, const LayerGeometry& layer, int decoder_layer, int stage, bool draft) {
    switch (layer.cache) {
      case CacheKind::kNone:
        return {};
      case CacheKind::kStateSpace:
        return AddState(layer, decoder_layer, stage, draft);
      case CacheKind::kMla:
        return AddLatent(model, layer, decoder_layer, stage, draft);
      default:
        return AddHeads(model, layer, decoder_layer, stage, draft);
    }
  }

  std::vector<VllmLayer> Take() { return std::move(layers_); }

  // The names of --kv-cache-dtype-skip-layers that matched nothing; vLLM ignores them without a word.
  std::vector<std::string> Unmatched() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < skip_.size(); ++i) {
      if (!used_[i]) names.push_back(skip_[i]);
    }
    return names;
  }

 private:
  bool Skipped(const LayerGeometry& layer, int decoder_layer) {
    bool skipped = false;
    for (size_t i = 0; i < skip_.size(); ++i) {
      const bool window = skip_[i] == "sliding_window" && layer.cache == CacheKind::kSlidingWindow;
      if (!window && skip_[i] != std::to_string(decoder_layer)) continue;
      used_[i] = true;
      skipped = true;
    }
    return skipped;
  }

  void Push(VllmSpec spec, int decoder_layer, int stage, bool draft, bool skipped) {
    std::string label = VllmSpecKindName(spec.kind);
    if (skipped) label += " in the model's dtype (skipped)";
    if (draft) label = "drafter, " + label;
    layers_.push_back({std::move(spec), decoder_layer, stage, draft, std::move(label)});
  }

  VllmKvDtype DtypeOf(const LayerGeometry& layer, int decoder_layer, bool draft, bool& skipped) {
    skipped = !draft && Skipped(layer, decoder_layer);
    if (skipped) return {"auto", VllmKvMode::kModelDtype};
    return draft ? setup_.draft_dtype : setup_.dtype;
  }

  Status AddState(const LayerGeometry& layer, int decoder_layer, int stage, bool draft) {
    const Result<int64_t> bytes = VllmStateBytes(layer.state, setup_, request_, plan_);
    if (!bytes) return Error(bytes.error());
    VllmSpec spec;
    spec.kind = VllmSpecKind::kState;
    spec.block_size = alignment_.state_block;
    spec.state_bytes = *bytes;
    spec.padded_page = alignment_.padded_state_page;
    spec.content = StateKindName(layer.state.kind);
    if (layer.state.kind == StateKind::kMamba2 && setup_.rules.mamba2_checkpoint) spec.checkpoint_blocks = 1;
    Push(std::move(spec), decoder_layer, stage, draft, false);
    return {};
  }

  Status AddLatent(const ModelGeometry& model, const LayerGeometry& layer, int decoder_layer, int stage, bool draft) {
    if (layer.compress_ratio != 1 || layer.window > 0) {
      return Error(ErrorCode::kUnsupported,
                   "vLLM's packed pool of compressed latent rows (DeepSeek-V4) is not understood yet");
    }
    bool skipped = false;
    const VllmKvDtype dtype = DtypeOf(layer, decoder_layer, draft, skipped);
    const int row = layer.kv_lora_rank + layer.rope_dim;
    const Result<int64_t> bytes = VllmLatentBytes(dtype, row, model.model_dtype_bytes);
    if (!bytes) return Error(bytes.error());
    VllmSpec spec;
    spec.kind = VllmSpecKind::kMla;
    spec.block_size = setup_.block_size;
    spec.token_bytes = *bytes;
    spec.content = fmt::format("latent {} {}", row, dtype.name);
    Push(spec, decoder_layer, stage, draft, skipped);
    if (layer.index_head_dim <= 0) return {};
    spec.token_bytes = layer.index_head_dim + int64_t{layer.index_head_dim} / kIndexerScaleGroup * 4;
    spec.content = fmt::format("indexer {}", layer.index_head_dim);
    Push(std::move(spec), decoder_layer, stage, draft, false);
    layers_.back().label = "sparse indexer";
    return {};
  }

  int HeadsPerRank(const LayerGeometry& layer) {
    const int tp = request_.tensor_parallel;
    const bool divides = layer.kv_heads % tp == 0 || tp % std::max(1, layer.kv_heads) == 0;
    if (!divides && !plan_.refused) {
      plan_.refused = Refusal{
          fmt::format("{} KV heads do not divide over a tensor parallel size of {}", layer.kv_heads, tp), std::nullopt};
    }
    return std::max(1, layer.kv_heads / tp);
  }

  Status AddHeads(const ModelGeometry& model, const LayerGeometry& layer, int decoder_layer, int stage, bool draft) {
    bool skipped = false;
    const VllmKvDtype dtype = DtypeOf(layer, decoder_layer, draft, skipped);
    const int heads = HeadsPerRank(layer);
    const Result<int64_t> bytes =
        VllmHeadBytes(dtype, heads, layer.head_dim_k, layer.head_dim_v, model.model_dtype_bytes);
    if (!bytes) return Error(bytes.error());
    VllmSpec spec;
    spec.block_size = setup_.block_size;
    spec.token_bytes = *bytes;
    spec.content = fmt::format("{}x{}+{} {}", heads, layer.head_dim_k, layer.head_dim_v, static_cast<int>(dtype.mode));
    if (layer.cache == CacheKind::kChunkedAttention) {
      spec.kind = VllmSpecKind::kChunked;
      spec.window = layer.window;
    } else if (layer.cache == CacheKind::kCrossAttention) {
      spec.kind = VllmSpecKind::kCross;
    } else if (layer.cache == CacheKind::kSlidingWindow) {
      spec.kind = VllmSpecKind::kSlidingWindow;
      spec.window = WindowOf(layer, model);
      GiveWindowItsBlock(spec);
    }
    Push(std::move(spec), decoder_layer, stage, draft, skipped);
    return {};
  }

  // A window's block is free of --block-size: the largest kernel block that the page allows.
  void GiveWindowItsBlock(VllmSpec& spec) const {
    if (!setup_.rules.windows_choose_blocks) return;
    const int64_t budget = alignment_.shared_page > 0 ? alignment_.shared_page : spec.token_bytes * setup_.block_size;
    spec.block_size = setup_.backend.LargestKernelBlockWithin(spec.token_bytes, budget);
    spec.padded_page = std::max(alignment_.shared_page, int64_t{0});
    if (spec.padded_page > 0) spec.padded_page = std::max(spec.padded_page, spec.UnpaddedPage());
  }

  const PlanRequest& request_;
  const VllmSetup& setup_;
  std::vector<std::string> skip_;
  const VllmAlignment& alignment_;
  PoolPlan& plan_;
  std::vector<bool> used_;
  std::vector<VllmLayer> layers_;
};

Result<int64_t> LargestState(const ModelGeometry& model, const PlanRequest& request, const VllmSetup& setup,
                             PoolPlan& plan) {
  int64_t largest = 0;
  for (const LayerGeometry& layer : model.layers) {
    if (layer.cache != CacheKind::kStateSpace) continue;
    const Result<int64_t> bytes = VllmStateBytes(layer.state, setup, request, plan);
    if (!bytes) return bytes;
    largest = std::max(largest, *bytes);
  }
  return largest;
}

// Layers that multi-token prediction adds. Configs that run it without naming its layers repeat the last attention
// layer.
std::vector<LayerGeometry> MtpLayers(const ModelGeometry& model, PoolPlan& plan) {
  if (!model.mtp_layers.empty()) return model.mtp_layers;
  for (auto layer = model.layers.rbegin(); layer != model.layers.rend(); ++layer) {
    if (layer->cache != CacheKind::kFullAttention && layer->cache != CacheKind::kMla) continue;
    plan.warnings.push_back(
        "The config names no multi-token-prediction layers; the plan adds one like the model's last attention layer.");
    return {*layer};
  }
  return {};
}

// Qwen 2 with windows in some layers: vLLM serves windows in all layers or in none.
void RefuseSomeWindows(const ModelGeometry& model, PoolPlan& plan) {
  if (!model.architecture.starts_with("Qwen2") || plan.refused) return;
  const auto windows = std::count_if(model.layers.begin(), model.layers.end(), [](const LayerGeometry& layer) {
    return layer.cache == CacheKind::kSlidingWindow;
  });
  const auto layers = static_cast<std::ptrdiff_t>(model.layers.size());
  if (windows == 0 || windows == layers) return;
  plan.refused = Refusal{
      fmt::format("Sliding window for some but all layers is not supported. This model uses sliding window but "
                  "`max_window_layers` = {} is less than `num_hidden_layers` = {}. Please open an issue to discuss "
                  "this feature.",
                  layers - windows, layers),
      std::nullopt};
}

Status AddDrafter(const ModelGeometry& model, const PlanRequest& request, LayerBuilder& builder, PoolPlan& plan) {
  if (!request.speculative) return {};
  const Speculative& speculative = *request.speculative;
  const int last_stage = request.pipeline_parallel - 1;
  const int first = DecoderLayers(model);
  if (speculative.method == "mtp") {
    for (const LayerGeometry& layer : MtpLayers(model, plan)) {
      if (Status status = builder.Add(model, layer, first, last_stage, true); !status) return status;
    }
    return {};
  }
  if (speculative.draft == nullptr) {
    const bool has_none = speculative.method.starts_with("ngram") || speculative.method == "suffix" ||
                          speculative.method == "medusa" || speculative.method == "mlp_speculator";
    if (!has_none) {
      plan.warnings.push_back(fmt::format(
          "The drafter of --speculative {} is not known, so its layers are missing in the plan.", speculative.method));
    }
    return {};
  }
  for (const LayerGeometry& layer : speculative.draft->layers) {
    Status status = builder.Add(*speculative.draft, layer, first + layer.index, last_stage, true);
    if (!status) return std::move(status).error().WithContext("drafter " + speculative.draft_name);
  }
  return {};
}

void WarnOfIgnoredNames(const std::vector<std::string>& names, PoolPlan& plan) {
  if (names.empty()) return;
  std::string advice;
  for (const std::string& name : names) {
    if (name.find(',') == std::string::npos) continue;
    advice = " Commas do not separate names: write them as arguments of their own, as in '0 31'.";
  }
  plan.warnings.push_back(fmt::format(
      "--kv-cache-dtype-skip-layers: '{}' names no attention layer of this model; vLLM ignores it without a word.{}",
      fmt::join(names, "', '"), advice));
}

}  // namespace

Result<std::vector<VllmLayer>> BuildVllmLayers(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup,
                                               PoolPlan& plan) {
  RefuseSomeWindows(model, plan);
  const Result<int64_t> state_bytes = LargestState(model, request, setup, plan);
  if (!state_bytes) return Error(state_bytes.error());
  const std::vector<std::string> skip = SkipLayers(model, request, setup);
  const Result<VllmAlignment> alignment = AlignVllmBlocks(model, request, skip, *state_bytes, setup, plan);
  if (!alignment) return Error(alignment.error());
  LayerBuilder builder(request, setup, skip, *alignment, plan);
  const std::vector<int> stage_of = StageOfLayer(DecoderLayers(model), request.pipeline_parallel);
  for (const LayerGeometry& layer : model.layers) {
    Status status = builder.Add(model, layer, layer.index, stage_of[layer.index], false);
    if (!status) return std::move(status).error().WithContext(fmt::format("layer {}", layer.index));
  }
  if (Status status = AddDrafter(model, request, builder, plan); !status) return std::move(status).error();
  WarnOfIgnoredNames(builder.Unmatched(), plan);
  return builder.Take();
}

}  // namespace haypile
