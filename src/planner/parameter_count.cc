#include "planner/parameter_count.h"

#include <algorithm>

#include "base/json.h"

namespace haypile {
namespace {

// Above every published model by three orders; sums are made in double and checked against it.
constexpr double kMostParameters = 4e15;

struct FeedForwardShape {
  double matrices = 3;  // gate, up, down; 2 without a gate
  int64_t dense_width = 0;
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;
  int64_t shared_width = 0;
  int64_t latent = 0;  // experts read and write this width; 0: the hidden size
};

struct Sums {
  double attention = 0, dense = 0, shared = 0, experts = 0, active = 0, small = 0;
};

Result<int64_t> SharedWidth(const ConfigObject& config, const ModelShape& shape, int64_t expert_width) {
  HAYPILE_TRY_ASSIGN(const int64_t count, config.IntOf({"n_shared_experts", "num_shared_experts"}, 0, kMaxHeads, 0));
  HAYPILE_TRY_ASSIGN(const int64_t width,
                     config.IntOf({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                                   "shared_intermediate_size", "share_expert_dim"},
                                  0, kMaxWidth, 0));
  if (width != 0) return width * std::max<int64_t>(count, 1);
  if (shape.family.model_type.starts_with("llama4")) return expert_width;
  return count * expert_width;
}

Result<FeedForwardShape> ReadFeedForward(const ConfigObject& config, const ModelShape& shape) {
  FeedForwardShape ff;
  ff.matrices = shape.family.Is(kPlainFeedForward) ? 2 : 3;
  const std::initializer_list<std::string_view> widths = {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size",
                                                          "dense_intermediate_size"};
  HAYPILE_TRY_ASSIGN(const int64_t width, config.IntOf(widths, 0, kMaxWidth, 0));
  ff.dense_width = width == 0 && shape.family.Is(kPlainFeedForward) ? 4 * shape.hidden : width;
  HAYPILE_TRY_ASSIGN(ff.experts,
                     config.IntOf({"num_experts", "num_local_experts", "n_routed_experts"}, 0, kMaxHeads, 0));
  HAYPILE_TRY_ASSIGN(ff.experts_per_token, config.IntOf({"num_experts_per_tok", "num_experts_per_token",
                                                         "top_k_experts", "experts_per_token", "moe_top_k"},
                                                        0, kMaxHeads, 0));
  HAYPILE_TRY_ASSIGN(ff.latent, config.IntOf({"moe_latent_size", "routed_expert_hidden_size"}, 1, kMaxWidth, 0));
  const int64_t same = shape.family.Is(kExpertsUseDenseSize) ? width : 0;
  HAYPILE_TRY_ASSIGN(ff.expert_width, config.Int("moe_intermediate_size", 1, kMaxWidth, same));
  HAYPILE_TRY_ASSIGN(ff.shared_width, SharedWidth(config, shape, ff.expert_width));
  HAYPILE_TRY_ASSIGN(ff.dense_width, config.Int("intermediate_size_mlp", 1, kMaxWidth, ff.dense_width));
  return ff;
}

double Mla(const ModelShape& s) {
  const double heads = static_cast<double>(s.query_heads);
  const double h = static_cast<double>(s.hidden);
  const double q_rank = static_cast<double>(s.q_lora_rank);
  const double qk = static_cast<double>(s.nope_dim + s.rope_dim);
  const double latent = static_cast<double>(s.kv_lora_rank);
  const double query = s.q_lora_rank == 0 ? h * heads * qk : h * q_rank + q_rank * heads * qk;
  const double kv =
      h * (latent + static_cast<double>(s.rope_dim)) + latent * heads * static_cast<double>(s.nope_dim + s.head_dim_v);
  const double output = heads * static_cast<double>(s.head_dim_v) * h;
  const double index = static_cast<double>(s.index_head_dim);
  const double indexer = s.index_head_dim == 0 ? 0
                                               : q_rank * static_cast<double>(s.index_heads) * index + h * index +
                                                     h * static_cast<double>(s.index_heads);
  return query + kv + output + indexer;
}

double State(const ModelShape& s) {
  const StateShape& state = s.state;
  const double h = static_cast<double>(s.hidden);
  const double inner = static_cast<double>(state.intermediate);
  const double kernel = state.conv_kernel;
  const double keys = static_cast<double>(state.key_heads) * state.key_head_dim;
  const double values = static_cast<double>(state.value_heads) * state.value_head_dim;
  switch (state.kind) {
    case StateKind::kGatedDeltaNet:
      return h * (2 * keys + 2 * values + 2.0 * state.value_heads) + kernel * (2 * keys + values) + values * h;
    case StateKind::kKda:  // q, k, v and output; decay and output gates through one head's width; beta
      return 4 * h * values + 2 * (h * state.value_head_dim + state.value_head_dim * values) + h * state.value_heads +
             3 * kernel * values;
    case StateKind::kMamba1: {
      const double rank = static_cast<double>((s.hidden + 15) / 16);
      const double n = state.state_size;
      return h * 2 * inner + inner * kernel + inner * (rank + 2 * n) + rank * inner + inner * n + inner * h;
    }
    case StateKind::kMamba2: {
      const double mixed = inner + 2.0 * state.groups * state.state_size;
      return h * (inner + mixed + state.value_heads) + mixed * kernel + inner * h;
    }
    case StateKind::kShortConv:
      return h * 3 * inner + inner * kernel + inner * h;
  }
  return 0;
}

double PlainAttention(const HeadShape& heads, double hidden, bool query_gate, bool value_is_key) {
  const double query = static_cast<double>(heads.query_heads * heads.head_dim_k) * (query_gate ? 2 : 1);
  const double output = static_cast<double>(heads.query_heads * heads.head_dim_v);
  const double kv = static_cast<double>(heads.kv_heads * (heads.head_dim_k + (value_is_key ? 0 : heads.head_dim_v)));
  return hidden * (query + kv + output);
}

// DeepSeek-V4: a low-rank query, one K row that is also V, and an output projection in groups of low rank.
Result<double> CompressedAttention(const ConfigObject& config, const ModelShape& s) {
  HAYPILE_TRY_ASSIGN(const int64_t groups, config.Int("o_groups", 1, kMaxHeads, 1));
  HAYPILE_TRY_ASSIGN(const int64_t rank, config.Int("o_lora_rank", 1, kMaxWidth, 0));
  const double h = static_cast<double>(s.hidden);
  const double q_rank = static_cast<double>(s.q_lora_rank);
  const double wide = static_cast<double>(s.query_heads * s.head_dim);
  const double out = static_cast<double>(rank) * (wide + static_cast<double>(groups) * h);
  return h * q_rank + q_rank * wide + h * static_cast<double>(s.head_dim) + out;
}

Result<double> AttentionOf(const ConfigObject& config, const ModelShape& s, const BlockPlan& block) {
  if (s.family.model_type == "deepseek_v4") return CompressedAttention(config, s);
  if (s.kv_lora_rank != 0) return Mla(s);
  const bool full = block.attention != Attention::kSliding;
  return PlainAttention(s.HeadsOf(block), static_cast<double>(s.hidden), s.family.Is(kQueryGate),
                        full && s.full_value_is_key);
}

void AddFeedForward(const FeedForwardShape& ff, const BlockPlan& block, double hidden, Sums* sums) {
  const bool experts =
      block.feed_forward == FeedForward::kExperts || block.feed_forward == FeedForward::kDenseAndExperts;
  const bool dense = block.feed_forward == FeedForward::kDense || block.feed_forward == FeedForward::kDenseAndExperts;
  if (dense) sums->dense += ff.matrices * hidden * static_cast<double>(ff.dense_width);
  if (!experts) return;
  const double width = ff.latent == 0 ? hidden : static_cast<double>(ff.latent);
  const double one = ff.matrices * width * static_cast<double>(ff.expert_width);
  sums->experts += static_cast<double>(ff.experts) * one;
  sums->active += static_cast<double>(ff.experts_per_token) * one;
  sums->shared += ff.matrices * hidden * static_cast<double>(ff.shared_width);
  if (ff.latent != 0) sums->dense += 2 * hidden * width;
  sums->small += static_cast<double>(ff.experts) * hidden;
}

// Granite 4: every layer has the shared feed-forward layer, with or without experts.
void AddSharedFeedForward(const ModelShape& s, const FeedForwardShape& ff, Sums* sums) {
  if (s.family.model_type != "granitemoehybrid" || ff.experts != 0) return;
  sums->dense += ff.matrices * static_cast<double>(s.hidden * ff.shared_width) * static_cast<double>(s.layers);
}

// Whether a size is missing that some block needs.
bool LacksSizes(const ModelShape& s, const FeedForwardShape& ff) {
  if (s.hidden == 0 || s.vocabulary == 0) return true;
  if (s.kv_lora_rank != 0 && (s.nope_dim == 0 || s.head_dim_v == 0)) return true;
  const bool shared_only = s.family.model_type == "granitemoehybrid" && ff.experts == 0;
  for (const BlockPlan& block : s.blocks) {
    if (block.feed_forward == FeedForward::kNone || shared_only) continue;
    const bool dense = block.feed_forward != FeedForward::kExperts;
    const bool experts = block.feed_forward != FeedForward::kDense;
    if (dense && ff.dense_width == 0) return true;
    const bool routed = ff.experts_per_token > 0 && ff.experts_per_token <= ff.experts;
    if (experts && (ff.expert_width == 0 || !routed)) return true;
  }
  return false;
}

double Embeddings(const ModelShape& s, bool tied) {
  const double one = static_cast<double>(s.vocabulary) * static_cast<double>(s.hidden);
  const double positions =
      s.family.Is(kLearnedPositions) ? static_cast<double>(s.max_positions) * static_cast<double>(s.hidden) : 0;
  return one * (tied ? 1 : 2) + positions;
}

// What needs a rule of its own that nobody has written yet.
bool LacksRule(const ConfigObject& config, const ConfigFamily& family) {
  const Json* width = config.Find("intermediate_size");
  const bool by_layer = (width != nullptr && width->is_array()) || config.IsSet("num_attention_heads_per_layer");
  return by_layer || family.Is(kNoParameterRule) || config.IsSet("hidden_size_per_layer_input");
}

Result<Sums> SumBlocks(const ConfigObject& config, const ModelShape& shape, const FeedForwardShape& ff) {
  Sums sums;
  const bool shared_only = shape.family.model_type == "granitemoehybrid" && ff.experts == 0;
  const double hidden = static_cast<double>(shape.hidden);
  for (const BlockPlan& block : shape.blocks) {
    if (block.attention != Attention::kNone) {
      HAYPILE_TRY_ASSIGN(const double attention, AttentionOf(config, shape, block));
      sums.attention += attention;
    }
    if (block.state) sums.attention += State(shape);
    if (!shared_only) AddFeedForward(ff, block, hidden, &sums);
    sums.small += 2 * hidden;
    if (!shape.family.Is(kQkvBias)) continue;
    const HeadShape heads = shape.HeadsOf(block);
    sums.small += static_cast<double>(heads.query_heads * heads.head_dim_k +
                                      heads.kv_heads * (heads.head_dim_k + heads.head_dim_v));
  }
  AddSharedFeedForward(shape, ff, &sums);
  return sums;
}

}  // namespace

Result<ParameterTotals> CountParameters(const ConfigObject& config, const ConfigObject& outer,
                                        const ModelShape& shape) {
  HAYPILE_TRY_ASSIGN(const bool outer_tied, outer.Bool("tie_word_embeddings", shape.family.Is(kTied)));
  HAYPILE_TRY_ASSIGN(const bool tied, config.Bool("tie_word_embeddings", outer_tied));
  ParameterTotals count;
  count.tied_embeddings = tied;
  if (LacksRule(config, shape.family)) return count;
  HAYPILE_TRY_ASSIGN(const FeedForwardShape ff, ReadFeedForward(config, shape));
  if (LacksSizes(shape, ff)) return count;
  HAYPILE_TRY_ASSIGN(const Sums sums, SumBlocks(config, shape, ff));
  const double embeddings = Embeddings(shape, tied);
  const double total = embeddings + sums.attention + sums.dense + sums.shared + sums.experts + sums.small;
  if (total > kMostParameters) {
    return config.Malformed("the sizes imply more than 4e15 parameters; expected those of a real model");
  }
  const auto whole = [](double value) { return static_cast<int64_t>(value); };
  count.embeddings = whole(embeddings);
  count.attention = whole(sums.attention);
  count.dense = whole(sums.dense);
  count.shared_experts = whole(sums.shared);
  count.experts = whole(sums.experts);
  count.active_experts = whole(sums.active);
  count.small = whole(sums.small);
  return count;
}

}  // namespace haypile
