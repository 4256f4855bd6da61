#include "checkpoint/gguf_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "checkpoint/dequantize.h"
#include "checkpoint/spec_checks.h"

namespace haypile {
namespace {

// The converter of GGUF files writes no local RoPE base and no layer pattern for gemma3; these are the family's.
constexpr double kGemma3LocalTheta = 10000.0;
constexpr int kGemma3Period = 6;
// The one gemma3 size whose queries are scaled by 1/sqrt(H/Hq) instead of 1/sqrt(D); only its depth tells it apart.
constexpr int kGemma3LayersOf27B = 62;

class SpecReader {
 public:
  explicit SpecReader(const GgufFile& file) : file_(file) {}

  Result<ModelSpec> Read() {
    HAYPILE_TRY(ReadFamily());
    HAYPILE_TRY(RefuseUnknownFeatures());
    HAYPILE_TRY(ReadSizes());
    HAYPILE_TRY(ReadHeads());
    HAYPILE_TRY(ReadVocabulary());
    HAYPILE_TRY(ReadRope());
    HAYPILE_TRY(ReadFrequencyFactors());
    HAYPILE_TRY(CheckModelSpec(spec_, Where()));
    HAYPILE_TRY(ReadAttentionPattern());
    HAYPILE_TRY(CheckModelSpec(spec_, Where()));
    return spec_;
  }

 private:
  std::string Where() const { return std::string("'").append(file_.path()).append("'"); }
  std::string Key(const char* suffix) const { return spec_.architecture + "." + suffix; }
  bool Has(const char* suffix) const { return file_.Has(Key(suffix)); }
  Error Unsupported(const std::string& what) const { return Error(ErrorCode::kUnsupported, Where() + ": " + what); }
  Error Malformed(const std::string& what) const { return Error(ErrorCode::kMalformed, Where() + ": " + what); }

  Status ReadFamily();
  Status RefuseUnknownFeatures() const;
  Status ReadSizes();
  Status ReadHeads();
  Status ReadVocabulary();
  Status ReadRope();
  Status ReadYarn();
  Status ReadFrequencyFactors();
  Status ReadAttentionPattern();
  Status ReadGemma3Layers();

  // A positive int; some files give an array with one entry a layer, which must then all be equal.
  Result<int> Size(const char* suffix) const;
  Result<double> FloatOr(const char* suffix, double absent) const;

  const GgufFile& file_;
  ModelSpec spec_;
};

Status SpecReader::ReadFamily() {
  HAYPILE_TRY_ASSIGN(spec_.architecture, file_.GetString("general.architecture"));
  const std::string& name = spec_.architecture;
  if (name == "llama") {
    spec_.family = ModelFamily::kLlama;
  } else if (name == "qwen2") {
    spec_.family = ModelFamily::kQwen2;
    spec_.qkv_bias = true;
  } else if (name == "qwen3") {
    spec_.family = ModelFamily::kQwen3;
    spec_.qk_norm = true;
  } else if (name == "gemma3") {
    spec_.family = ModelFamily::kGemma3;
    spec_.qk_norm = true;
  } else {
    return Unsupported("architecture " + QuotedName(name) + " is not supported; llama, qwen2, qwen3 and gemma3 are");
  }
  return {};
}

Status SpecReader::RefuseUnknownFeatures() const {
  struct UnknownFeature {
    const char* suffix;
    const char* what;
  };
  constexpr UnknownFeature kFeatures[] = {
      {"expert_count", "a mixture of experts"},
      {"attention.kv_lora_rank", "multi-head latent attention"},
      {"attn_logit_softcapping", "a soft cap on attention logits"},
      {"final_logit_softcapping", "a soft cap on output logits"},
      {"attention.max_alibi_bias", "ALiBi positions"},
      {"attention.clamp_kqv", "clamped Q, K and V"},
      {"rope.scaling.yarn_log_multiplier", "a YaRN log multiplier"},
      {"logit_scale", "a logit scale"},
      {"embedding_scale", "an embedding scale"},
      {"residual_scale", "a residual scale"},
  };
  for (const UnknownFeature& feature : kFeatures) {
    if (!Has(feature.suffix)) continue;
    HAYPILE_TRY_ASSIGN(const double value, file_.GetFloat(Key(feature.suffix)));
    if (value != 0) {
      return Unsupported("the model uses " + std::string(feature.what) + " (key '" + Key(feature.suffix) +
                         "'), which is not supported");
    }
  }
  if (Has("attention.causal")) {
    HAYPILE_TRY_ASSIGN(const bool causal, file_.GetBool(Key("attention.causal")));
    if (!causal) return Unsupported("the model's attention is not causal (key '" + Key("attention.causal") + "')");
  }
  return {};
}

Result<int> SpecReader::Size(const char* suffix) const {
  const std::string key = Key(suffix);
  int64_t value = 0;
  if (file_.IsArray(key)) {
    HAYPILE_TRY_ASSIGN(const std::vector<int64_t> values, file_.GetIntArray(key));
    if (values.empty()) return Malformed("key '" + key + "' is an empty array");
    value = values[0];
    if (std::any_of(values.begin(), values.end(), [&](int64_t other) { return other != value; })) {
      return Unsupported("key '" + key + "' differs from layer to layer, which is not supported");
    }
  } else {
    HAYPILE_TRY_ASSIGN(value, file_.GetInt(key));
  }
  if (value < 1 || value > std::numeric_limits<int>::max()) {
    return Malformed("key '" + key + "' is " + std::to_string(value) + "; a positive 32-bit integer is needed");
  }
  return static_cast<int>(value);
}

Result<double> SpecReader::FloatOr(const char* suffix, double absent) const {
  if (!Has(suffix)) return absent;
  return file_.GetFloat(Key(suffix));
}

Status SpecReader::ReadSizes() {
  HAYPILE_TRY_ASSIGN(spec_.layer_count, Size("block_count"));
  HAYPILE_TRY_ASSIGN(spec_.hidden_size, Size("embedding_length"));
  HAYPILE_TRY_ASSIGN(spec_.feed_forward_size, Size("feed_forward_length"));
  HAYPILE_TRY_ASSIGN(spec_.max_positions, file_.GetInt(Key("context_length")));
  HAYPILE_TRY_ASSIGN(const double epsilon, file_.GetFloat(Key("attention.layer_norm_rms_epsilon")));
  spec_.norm_epsilon = static_cast<float>(epsilon);
  return {};
}

Status SpecReader::ReadHeads() {
  HAYPILE_TRY_ASSIGN(spec_.query_heads, Size("attention.head_count"));
  spec_.kv_heads = spec_.query_heads;
  if (Has("attention.head_count_kv")) {
    HAYPILE_TRY_ASSIGN(spec_.kv_heads, Size("attention.head_count_kv"));
  }
  if (Has("attention.key_length")) {
    HAYPILE_TRY_ASSIGN(spec_.head_dim, Size("attention.key_length"));
  } else if (spec_.hidden_size % spec_.query_heads == 0) {
    spec_.head_dim = spec_.hidden_size / spec_.query_heads;
  } else {
    return Malformed("no key '" + Key("attention.key_length") + "', and hidden size " +
                     std::to_string(spec_.hidden_size) + " is no multiple of " + std::to_string(spec_.query_heads) +
                     " heads");
  }
  if (Has("attention.value_length")) {
    HAYPILE_TRY_ASSIGN(const int value_dim, Size("attention.value_length"));
    if (value_dim != spec_.head_dim) {
      return Unsupported("values of " + std::to_string(value_dim) + " elements beside keys of " +
                         std::to_string(spec_.head_dim) + " are not supported");
    }
  }
  if (Has("rope.dimension_count")) {
    HAYPILE_TRY_ASSIGN(const int rotated, Size("rope.dimension_count"));
    if (rotated != spec_.head_dim) {
      return Unsupported("RoPE over " + std::to_string(rotated) + " of " + std::to_string(spec_.head_dim) +
                         " head elements is not supported");
    }
  }
  HAYPILE_TRY_ASSIGN(const double scale, FloatOr("attention.scale", 1.0 / std::sqrt(spec_.head_dim)));
  spec_.query_scale = static_cast<float>(scale);
  return {};
}

Status SpecReader::ReadVocabulary() {
  const StoredTensor* embedding = file_.FindTensor("token_embd.weight");
  if (embedding == nullptr) return Malformed("tensor 'token_embd.weight' is absent");
  if (embedding->shape.size() != 2 || embedding->shape[0] > std::numeric_limits<int>::max()) {
    return Malformed("tensor 'token_embd.weight' has shape " + ShapeText(embedding->shape) +
                     "; wanted [vocabulary, hidden]");
  }
  spec_.vocabulary_size = static_cast<int>(embedding->shape[0]);
  if (Has("vocab_size")) {
    HAYPILE_TRY_ASSIGN(const int claimed, Size("vocab_size"));
    if (claimed != spec_.vocabulary_size) {
      return Malformed("key '" + Key("vocab_size") + "' is " + std::to_string(claimed) +
                       ", but tensor 'token_embd.weight' has shape " + ShapeText(embedding->shape));
    }
  }
  spec_.tied_output = file_.FindTensor("output.weight") == nullptr;
  return {};
}

Status SpecReader::ReadRope() {
  RopeSpec& rope = spec_.rope;
  HAYPILE_TRY_ASSIGN(rope.theta, FloatOr("rope.freq_base", 10000.0));
  HAYPILE_TRY_ASSIGN(const double old_factor, FloatOr("rope.scale_linear", 0.0));
  HAYPILE_TRY_ASSIGN(const double factor, FloatOr("rope.scaling.factor", old_factor));
  std::string type = factor != 0.0 && factor != 1.0 ? "linear" : "none";
  if (Has("rope.scaling.type")) {
    HAYPILE_TRY_ASSIGN(type, file_.GetString(Key("rope.scaling.type")));
  }
  if (factor != 0.0) rope.factor = factor;
  if (type == "none") {
    rope.factor = 1.0;
  } else if (type == "linear") {
    rope.kind = rope.factor == 1.0 ? RopeKind::kDefault : RopeKind::kLinear;
  } else if (type == "yarn") {
    HAYPILE_TRY(ReadYarn());
  } else {
    return Unsupported("RoPE scaling type " + QuotedName(type) + " is not supported; none, linear and yarn are");
  }
  return {};
}

Status SpecReader::ReadYarn() {
  RopeSpec& rope = spec_.rope;
  rope.kind = RopeKind::kYarn;
  rope.original_max_position = spec_.max_positions;
  if (Has("rope.scaling.original_context_length")) {
    HAYPILE_TRY_ASSIGN(rope.original_max_position, file_.GetInt(Key("rope.scaling.original_context_length")));
  }
  HAYPILE_TRY_ASSIGN(rope.beta_fast, FloatOr("rope.scaling.yarn_beta_fast", 32.0));
  HAYPILE_TRY_ASSIGN(rope.beta_slow, FloatOr("rope.scaling.yarn_beta_slow", 1.0));
  HAYPILE_TRY_ASSIGN(const double extrapolation, FloatOr("rope.scaling.yarn_ext_factor", 1.0));
  if (extrapolation != 1.0) {
    return Unsupported("a YaRN extrapolation factor of " + std::to_string(extrapolation) + " is not supported");
  }
  // In GGUF this multiplies the factor that YaRN derives.
  HAYPILE_TRY_ASSIGN(const double plain, FloatOr("rope.scaling.attn_factor", 1.0));
  HAYPILE_TRY_ASSIGN(const double multiplier, FloatOr("rope.scaling.yarn_attn_factor", plain));
  if (multiplier != 1.0) rope.attention_factor = multiplier * (1.0 + 0.1 * std::log(std::max(rope.factor, 1.0)));
  return {};
}

Status SpecReader::ReadFrequencyFactors() {
  for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (file_.FindTensor(name) != nullptr) {
      return Unsupported("tensor '" + std::string(name) + "': longrope scaling is not supported");
    }
  }
  const StoredTensor* factors = file_.FindTensor("rope_freqs.weight");
  if (factors == nullptr) return {};
  const int64_t pairs = spec_.head_dim / 2;
  if (factors->type->type != WeightType::kF32 || factors->shape != std::vector<int64_t>{pairs}) {
    return Malformed("byte " + std::to_string(factors->file_offset) + ": tensor 'rope_freqs.weight' is " +
                     std::string(factors->type->name) + " of shape " + ShapeText(factors->shape) +
                     "; wanted F32 of shape [" + std::to_string(pairs) + "]");
  }
  spec_.rope.frequency_factors.resize(static_cast<size_t>(pairs));
  DequantizeToFloat(WeightType::kF32, factors->bytes.data(), spec_.rope.frequency_factors);
  return {};
}

Status SpecReader::ReadAttentionPattern() {
  if (spec_.family == ModelFamily::kGemma3) return ReadGemma3Layers();
  if (Has("attention.sliding_window")) {
    HAYPILE_TRY_ASSIGN(const int64_t window, file_.GetInt(Key("attention.sliding_window")));
    if (window != 0) {
      return Unsupported("key '" + Key("attention.sliding_window") + "' is " + std::to_string(window) +
                         ", but which layers slide is not defined for architecture " + QuotedName(spec_.architecture));
    }
  }
  spec_.layers.assign(static_cast<size_t>(spec_.layer_count), LayerSpec{});
  return {};
}

Status SpecReader::ReadGemma3Layers() {
  spec_.embedding_scale = std::sqrt(static_cast<float>(spec_.hidden_size));
  if (spec_.layer_count == kGemma3LayersOf27B && !Has("attention.scale")) {
    spec_.query_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.hidden_size) / spec_.query_heads));
  }
  HAYPILE_TRY_ASSIGN(spec_.local_rope.theta, FloatOr("rope.freq_base_swa", kGemma3LocalTheta));
  HAYPILE_TRY_ASSIGN(const int window, Size("attention.sliding_window"));
  const std::string pattern = Key("attention.sliding_window_pattern");
  if (file_.IsArray(pattern)) {
    HAYPILE_TRY_ASSIGN(const std::vector<int64_t> slides, file_.GetIntArray(pattern));
    if (slides.size() != static_cast<size_t>(spec_.layer_count)) {
      return Malformed("key '" + pattern + "' has " + std::to_string(slides.size()) + " entries for " +
                       std::to_string(spec_.layer_count) + " layers");
    }
    spec_.layers.clear();
    for (const int64_t slide : slides) spec_.layers.push_back(slide != 0 ? LayerSpec{window, true} : LayerSpec{});
    return {};
  }
  int period = kGemma3Period;
  if (file_.Has(pattern)) {
    HAYPILE_TRY_ASSIGN(period, Size("attention.sliding_window_pattern"));
  }
  SetSlidingPattern(period, window, &spec_);
  return {};
}

}  // namespace

Result<ModelSpec> ModelSpecFromGguf(const GgufFile& file) { return SpecReader(file).Read(); }

}  // namespace haypile
