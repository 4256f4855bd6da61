#include "checkpoint/spec_checks.h"

#include <cmath>
#include <cstdint>

namespace haypile {
namespace {

struct Range {
  const char* what;
  int64_t value;
  int64_t most;
};

Error Bad(const std::string& where, const std::string& what) {
  return Error(ErrorCode::kMalformed, where + ": " + what);
}

bool IsPositive(double value) { return std::isfinite(value) && value > 0; }

Status CheckRope(const RopeSpec& rope, int head_dim, const std::string& where) {
  if (!IsPositive(rope.theta) || !IsPositive(rope.factor) || !IsPositive(rope.low_freq_factor) ||
      !IsPositive(rope.high_freq_factor) || !IsPositive(rope.beta_fast) || !IsPositive(rope.beta_slow) ||
      (rope.attention_factor && !IsPositive(*rope.attention_factor))) {
    return Bad(where, "a RoPE parameter is not a positive finite number");
  }
  const bool needs_original = rope.kind == RopeKind::kLlama3 || rope.kind == RopeKind::kYarn;
  if (needs_original && rope.original_max_position <= 0) {
    return Bad(where, "the RoPE scaling has no original_max_position_embeddings");
  }
  if (rope.kind == RopeKind::kLlama3 && rope.high_freq_factor <= rope.low_freq_factor) {
    return Bad(where, "llama3 RoPE needs a high_freq_factor above its low_freq_factor");
  }
  if (!rope.frequency_factors.empty() && rope.frequency_factors.size() != static_cast<size_t>(head_dim / 2)) {
    return Bad(where, "there are " + std::to_string(rope.frequency_factors.size()) +
                          " RoPE frequency factors for a head dim of " + std::to_string(head_dim));
  }
  for (const float factor : rope.frequency_factors) {
    if (!IsPositive(factor)) return Bad(where, "a RoPE frequency factor is not a positive finite number");
  }
  return {};
}

}  // namespace

Status CheckModelSpec(const ModelSpec& spec, const std::string& where) {
  const Range ranges[] = {
      {"layer count", spec.layer_count, 4096},
      {"hidden size", spec.hidden_size, 1 << 20},
      {"query head count", spec.query_heads, 1 << 16},
      {"KV head count", spec.kv_heads, 1 << 16},
      {"head dim", spec.head_dim, 1 << 14},
      {"feed-forward size", spec.feed_forward_size, 1 << 24},
      {"vocabulary size", spec.vocabulary_size, 1 << 26},
      {"context length", spec.max_positions, int64_t{1} << 40},
  };
  for (const Range& range : ranges) {
    if (range.value >= 1 && range.value <= range.most) continue;
    return Bad(where, std::string(range.what) + " is " + std::to_string(range.value) + "; 1 to " +
                          std::to_string(range.most) + " are allowed");
  }
  if (spec.query_heads % spec.kv_heads != 0) {
    return Bad(where, std::to_string(spec.query_heads) + " query heads are no multiple of " +
                          std::to_string(spec.kv_heads) + " KV heads");
  }
  if (spec.head_dim % 2 != 0) {
    return Bad(where, "head dim " + std::to_string(spec.head_dim) + " is odd; RoPE rotates pairs");
  }
  if (!IsPositive(spec.norm_epsilon)) return Bad(where, "the RMS norm epsilon is not a positive finite number");
  if (!IsPositive(spec.query_scale) || !IsPositive(spec.embedding_scale)) {
    return Bad(where, "the query or embedding scale is not a positive finite number");
  }
  for (const LayerSpec& layer : spec.layers) {
    if (layer.window < 0) return Bad(where, "a sliding window is negative");
  }
  HAYPILE_TRY(CheckRope(spec.rope, spec.head_dim, where));
  return CheckRope(spec.local_rope, spec.head_dim, where);
}

void SetSlidingPattern(int period, int window, ModelSpec* spec) {
  spec->layers.assign(static_cast<size_t>(spec->layer_count), LayerSpec{});
  for (int i = 0; i < spec->layer_count; ++i) {
    if (i % period != period - 1) spec->layers[static_cast<size_t>(i)] = {window, true};
  }
}

}  // namespace haypile
