#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/rope.h"
#include "kernels/kv_write/kv_write.h"
#include "kernels/matmul/matmul.h"
#include "models/decoder_weights.h"
#include "models/decoder_workspace.h"

namespace haypile {
namespace {

Error InvalidItem(size_t item, const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, fmt::format("batch item {}: {}", item, what));
}

Status CheckItem(const ModelSpec& spec, std::span<const BatchItem> items, size_t index, const KvCache& cache) {
  const BatchItem& item = items[index];
  if (item.tokens.empty()) return InvalidItem(index, "has no tokens");
  const auto tokens = static_cast<int64_t>(item.tokens.size());
  if (tokens > cache.config().chunk_tokens) {
    return InvalidItem(
        index, fmt::format("{} tokens are more than the cache's chunk of {}", tokens, cache.config().chunk_tokens));
  }
  for (size_t other = 0; other < index; ++other) {
    if (items[other].sequence == item.sequence) {
      return InvalidItem(index, fmt::format("names sequence {} a second time", item.sequence));
    }
  }
  const int64_t end = cache.Length(item.sequence) + tokens;
  if (end > spec.max_positions) {
    return InvalidItem(index,
                       fmt::format("would reach {} tokens; the model's context holds {}", end, spec.max_positions));
  }
  for (const int32_t token : item.tokens) {
    if (token >= 0 && token < spec.vocabulary_size) continue;
    return InvalidItem(index, fmt::format("token id {} is outside the vocabulary of {}", token, spec.vocabulary_size));
  }
  return {};
}

void CheckCacheFits(const ModelSpec& spec, const KvCache& cache) {
  const auto& layers = cache.config().geometry.layers;
  HAYPILE_CHECK_EQ(static_cast<int>(layers.size()), spec.layer_count);
  for (int i = 0; i < spec.layer_count; ++i) {
    HAYPILE_CHECK_EQ(layers[i].kv_heads, spec.kv_heads);
    HAYPILE_CHECK_EQ(layers[i].head_dim, spec.head_dim);
    HAYPILE_CHECK_EQ(layers[i].window, spec.layers[i].window);
  }
}

}  // namespace

struct DecoderModel::State {
  State(const ModelSpec& model_spec, DecoderWeights model_weights, ThreadPool& thread_pool)
      : spec(model_spec),
        weights(std::move(model_weights)),
        pool(thread_pool),
        matmul(thread_pool),
        rope(MakeRopeFrequencies(spec.rope, spec.head_dim, spec.max_positions)),
        local_rope(MakeRopeFrequencies(spec.local_rope, spec.head_dim, spec.max_positions)) {
    uses_local_rope = std::any_of(spec.layers.begin(), spec.layers.end(),
                                  [](const LayerSpec& layer) { return layer.uses_local_rope; });
  }

  ModelSpec spec;
  DecoderWeights weights;
  ThreadPool& pool;
  Matmul matmul;
  RopeFrequencies rope, local_rope;
  bool uses_local_rope = false;
  DecoderWorkspace work;
  KvObserver* observer = nullptr;
  KvRewriter* rewriter = nullptr;

  int64_t WidestInput() const {
    return std::max<int64_t>({spec.hidden_size, spec.feed_forward_size, int64_t{spec.query_heads} * spec.head_dim});
  }

  // Lays the items' tokens out as rows and extends their sequences.
  Status PlaceRows(std::span<const BatchItem> items, KvCache& cache) {
    work.sequences.clear();
    work.writes.clear();
    work.positions.clear();
    work.tokens.clear();
    for (const BatchItem& item : items) {
      const int64_t first = cache.Length(item.sequence);
      HAYPILE_TRY(cache.Extend(item.sequence, static_cast<int64_t>(item.tokens.size())));
      const auto row = static_cast<int64_t>(work.tokens.size());
      const int count = static_cast<int>(item.tokens.size());
      work.sequences.push_back({nullptr, first, count, row});
      work.writes.push_back({nullptr, first, count, row});
      for (int i = 0; i < count; ++i) work.positions.push_back(first + i);
      work.tokens.insert(work.tokens.end(), item.tokens.begin(), item.tokens.end());
    }
    return {};
  }

  void Norm(const float* x, const float* weight, float* out, int64_t rows, int64_t n) {
    RmsNorm({x, weight, out, rows, n, spec.norm_epsilon}, pool);
  }

  void Multiply(const float* x, int64_t rows, const Bf16Matrix& matrix, float* y) {
    const MatmulOutput output{matrix, nullptr, y, matrix.rows};
    matmul.Run(x, rows, {&output, 1});
  }

  // work.normed -> work.projected.
  void Attention(int index, std::span<const BatchItem> items, const KvCache& cache, int64_t rows) {
    const LayerWeights& layer = weights.layers[index];
    const int d = spec.head_dim;
    const MatmulOutput outputs[] = {{layer.q, layer.q_bias, work.q, layer.q.rows},
                                    {layer.k, layer.k_bias, work.k, layer.k.rows},
                                    {layer.v, layer.v_bias, work.v, layer.v.rows}};
    matmul.Run(work.normed, rows, outputs);
    if (layer.q_norm != nullptr) {
      Norm(work.q, layer.q_norm, work.q, rows * spec.query_heads, d);
      Norm(work.k, layer.k_norm, work.k, rows * spec.kv_heads, d);
    }
    const bool local = spec.layers[index].uses_local_rope;
    const float* cosines = local ? work.local_cosines : work.cosines;
    const float* sines = local ? work.local_sines : work.sines;
    ApplyRope({work.q, cosines, sines, rows, spec.query_heads, d}, pool);
    ApplyRope({work.k, cosines, sines, rows, spec.kv_heads, d}, pool);
    if (observer != nullptr) observer->OnKv(index, work.k, work.v, rows);
    if (rewriter != nullptr) rewriter->Rewrite(index, work.k, work.v, rows);

    for (size_t i = 0; i < items.size(); ++i) {
      work.sequences[i].page_table = work.writes[i].page_table = cache.PageTable(items[i].sequence, index);
    }
    const PagedKvView view = cache.LayerView(index);
    WriteKv(view, work.writes, work.k, work.v, pool);
    AttentionArgs args;
    args.kv = view;
    args.sequences = work.sequences;
    args.queries = work.q;
    args.output = work.attention;
    args.query_heads = spec.query_heads;
    args.query_scale = spec.query_scale;
    args.window = spec.layers[index].window;
    PagedAttention(args, pool);
    Multiply(work.attention, rows, layer.o, work.projected);
  }

  // work.normed -> work.projected.
  void Mlp(const LayerWeights& layer, int64_t rows) {
    const MatmulOutput outputs[] = {{layer.gate, nullptr, work.gate, layer.gate.rows},
                                    {layer.up, nullptr, work.up, layer.up.rows}};
    matmul.Run(work.normed, rows, outputs);
    const int64_t count = rows * spec.feed_forward_size;
    if (spec.family == ModelFamily::kGemma3) {
      GeluTanhMul(work.gate, work.up, count, pool);
    } else {
      SiluMul(work.gate, work.up, count, pool);
    }
    Multiply(work.gate, rows, layer.down, work.projected);
  }

  // work.projected, normed first where the family does that, joins the residual stream.
  void AddResidual(const float* output_norm, int64_t rows) {
    const int64_t h = spec.hidden_size;
    if (output_norm != nullptr) Norm(work.projected, output_norm, work.projected, rows, h);
    AddInPlace(work.x, work.projected, rows * h, pool);
  }
};

DecoderModel::DecoderModel() = default;
DecoderModel::~DecoderModel() = default;

Result<std::unique_ptr<DecoderModel>> DecoderModel::Load(const Checkpoint& checkpoint, ThreadPool& pool) {
  HAYPILE_TRY_ASSIGN(DecoderWeights weights, DecoderWeights::Load(checkpoint, pool));
  std::unique_ptr<DecoderModel> model(new DecoderModel());
  model->state_ = std::make_unique<State>(checkpoint.spec(), std::move(weights), pool);
  return model;
}

const ModelSpec& DecoderModel::spec() const { return state_->spec; }
int64_t DecoderModel::weight_bytes() const { return static_cast<int64_t>(state_->weights.memory.size_bytes()); }

void DecoderModel::set_kv_observer(KvObserver* observer) { state_->observer = observer; }
void DecoderModel::set_kv_rewriter(KvRewriter* rewriter) { state_->rewriter = rewriter; }

Status DecoderModel::Forward(std::span<const BatchItem> items, KvCache& cache, std::span<float> hidden) {
  State& state = *state_;
  const ModelSpec& spec = state.spec;
  DecoderWorkspace& work = state.work;
  CheckCacheFits(spec, cache);
  int64_t rows = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    HAYPILE_TRY(CheckItem(spec, items, i, cache));
    rows += static_cast<int64_t>(items[i].tokens.size());
  }
  HAYPILE_CHECK_EQ(static_cast<int64_t>(hidden.size()), rows * spec.hidden_size);
  HAYPILE_TRY(work.Reserve(spec, rows));
  HAYPILE_TRY(state.matmul.Reserve(rows, state.WidestInput()));
  HAYPILE_TRY(state.PlaceRows(items, cache));

  FillRopeTables(state.rope, work.positions, work.cosines, work.sines, state.pool);
  if (state.uses_local_rope) {
    FillRopeTables(state.local_rope, work.positions, work.local_cosines, work.local_sines, state.pool);
  }
  const int64_t h = spec.hidden_size;
  EmbedRows(state.weights.embedding.data, h, work.tokens, spec.embedding_scale, work.x, state.pool);
  for (int i = 0; i < spec.layer_count; ++i) {
    const LayerWeights& layer = state.weights.layers[i];
    state.Norm(work.x, layer.input_norm, work.normed, rows, h);
    state.Attention(i, items, cache, rows);
    state.AddResidual(layer.attention_output_norm, rows);
    state.Norm(work.x, layer.mlp_input_norm, work.normed, rows, h);
    state.Mlp(layer, rows);
    state.AddResidual(layer.mlp_output_norm, rows);
  }
  state.Norm(work.x, state.weights.final_norm, hidden.data(), rows, h);
  return {};
}

void DecoderModel::Logits(std::span<const float> hidden_rows, std::span<float> logits) {
  const int64_t h = state_->spec.hidden_size;
  const auto rows = static_cast<int64_t>(hidden_rows.size()) / h;
  HAYPILE_CHECK_EQ(static_cast<int64_t>(hidden_rows.size()), rows * h);
  HAYPILE_CHECK_EQ(static_cast<int64_t>(logits.size()), rows * state_->spec.vocabulary_size);
  // Forward has reserved room for as many rows in most uses; a few megabytes at worst.
  HAYPILE_CHECK(state_->matmul.Reserve(rows, state_->WidestInput()).ok());
  state_->Multiply(hidden_rows.data(), rows, state_->weights.output, logits.data());
}

}  // namespace haypile
