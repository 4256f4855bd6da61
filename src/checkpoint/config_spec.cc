#include "checkpoint/config_spec.h"

#include <cmath>
#include <optional>

#include "base/json.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/config_quantization.h"
#include "checkpoint/config_rope.h"
#include "checkpoint/spec_checks.h"
#include "checkpoint/weight_type.h"

namespace haypile {
namespace {

// What a family's configs mean by fields that they leave out (the defaults of the families' published config classes).
// 0: the field must be there.
struct FamilyDefaults {
  std::string_view model_type;
  ModelFamily family;
  int64_t hidden_size;
  int64_t feed_forward_size;
  int64_t layer_count;
  int64_t query_heads;
  int64_t kv_heads;  // 0: as many as query heads
  int64_t head_dim;  // 0: hidden_size / query heads
  int64_t vocabulary_size;
  int64_t max_positions;
  bool tied_output;
};

constexpr FamilyDefaults kFamilies[] = {
    {"llama", ModelFamily::kLlama, 0, 0, 0, 0, 0, 0, 0, 2048, false},
    {"mistral", ModelFamily::kLlama, 0, 0, 0, 0, 0, 0, 0, 0, false},
    {"qwen2", ModelFamily::kQwen2, 0, 0, 0, 0, 0, 0, 0, 32768, false},
    {"qwen3", ModelFamily::kQwen3, 0, 0, 0, 0, 0, 128, 0, 32768, false},
    {"gemma3_text", ModelFamily::kGemma3, 2304, 9216, 26, 8, 4, 256, 262208, 131072, true},
};

// Fields that change the arithmetic in ways this program does not have.
struct Feature {
  const char* field;
  const char* what;
};
constexpr Feature kUnsupportedFeatures[] = {
    {"num_experts", "a mixture of experts"},
    {"num_local_experts", "a mixture of experts"},
    {"n_routed_experts", "a mixture of experts"},
    {"kv_lora_rank", "multi-head latent attention"},
    {"q_lora_rank", "multi-head latent attention"},
    {"attn_logit_softcapping", "a soft cap on attention logits"},
    {"final_logit_softcapping", "a soft cap on output logits"},
    {"attention_bias", "biases in attention"},
    {"mlp_bias", "biases in the feed-forward layers"},
    {"use_bidirectional_attention", "attention that is not causal"},
    {"attention_chunk_size", "chunked attention"},
    {"num_kv_shared_layers", "layers that share a KV cache"},
};

// Present and neither null, false nor zero.
bool IsSet(const Json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<double>() != 0;
  return true;
}

Status RefuseUnknownFeatures(const ConfigFields& fields) {
  for (const Feature& feature : kUnsupportedFeatures) {
    if (!IsSet(fields.Find(feature.field))) continue;
    return fields.Unsupported("the model uses " + std::string(feature.what) + " (field " +
                              fields.Quoted(feature.field) + "), which is not supported");
  }
  const auto quantization = KvQuantizationFromConfig(fields);
  if (!quantization.ok()) return quantization.error();
  HAYPILE_TRY_ASSIGN(const double partial, fields.Number("partial_rotary_factor", 1.0));
  if (partial != 1.0) {
    return fields.Unsupported("RoPE over a part of the head (field " + fields.Quoted("partial_rotary_factor") +
                              ") is not supported");
  }
  return {};
}

Result<const FamilyDefaults*> FindFamily(const ConfigFields& fields) {
  HAYPILE_TRY_ASSIGN(const std::string type, fields.String("model_type"));
  for (const FamilyDefaults& family : kFamilies) {
    if (family.model_type == type) return &family;
  }
  return fields.Unsupported("architecture " + QuotedName(type) +
                            " is not supported; llama, mistral, qwen2, qwen3, gemma3 and gemma3_text are");
}

std::optional<int64_t> Default(int64_t value) { return value == 0 ? std::nullopt : std::optional<int64_t>(value); }

Status ReadSizes(const ConfigFields& fields, const FamilyDefaults& family, ModelSpec* spec) {
  HAYPILE_TRY_ASSIGN(spec->hidden_size, fields.SmallInt("hidden_size", Default(family.hidden_size)));
  HAYPILE_TRY_ASSIGN(spec->feed_forward_size, fields.SmallInt("intermediate_size", Default(family.feed_forward_size)));
  HAYPILE_TRY_ASSIGN(spec->layer_count, fields.SmallInt("num_hidden_layers", Default(family.layer_count)));
  HAYPILE_TRY_ASSIGN(spec->query_heads, fields.SmallInt("num_attention_heads", Default(family.query_heads)));
  const int64_t kv_heads = family.kv_heads == 0 ? spec->query_heads : family.kv_heads;
  HAYPILE_TRY_ASSIGN(spec->kv_heads, fields.SmallInt("num_key_value_heads", kv_heads));
  HAYPILE_TRY_ASSIGN(spec->vocabulary_size, fields.SmallInt("vocab_size", Default(family.vocabulary_size)));
  HAYPILE_TRY_ASSIGN(spec->max_positions, fields.Int("max_position_embeddings", Default(family.max_positions)));
  if (fields.Has("head_dim") || family.head_dim != 0) {
    HAYPILE_TRY_ASSIGN(spec->head_dim, fields.SmallInt("head_dim", Default(family.head_dim)));
  } else if (spec->query_heads == 0 || spec->hidden_size % spec->query_heads != 0) {
    return fields.Malformed("no field " + fields.Quoted("head_dim") + ", and hidden size " +
                            std::to_string(spec->hidden_size) + " is no multiple of " +
                            std::to_string(spec->query_heads) + " heads");
  } else {
    spec->head_dim = spec->hidden_size / spec->query_heads;
  }
  return {};
}

Status ReadArithmetic(const ConfigFields& fields, const FamilyDefaults& family, ModelSpec* spec) {
  const bool gemma = spec->family == ModelFamily::kGemma3;
  HAYPILE_TRY_ASSIGN(const double epsilon, fields.Number("rms_norm_eps", 1e-6));
  spec->norm_epsilon = static_cast<float>(epsilon);
  HAYPILE_TRY_ASSIGN(spec->tied_output, fields.Bool("tie_word_embeddings", family.tied_output));
  spec->qkv_bias = spec->family == ModelFamily::kQwen2;
  spec->qk_norm = spec->family == ModelFamily::kQwen3 || gemma;
  const char* activation_field = gemma ? "hidden_activation" : "hidden_act";
  const std::string wanted = gemma ? "gelu_pytorch_tanh" : "silu";
  HAYPILE_TRY_ASSIGN(const std::string activation, fields.String(activation_field, wanted));
  if (activation != wanted) {
    return fields.Unsupported("field " + fields.Quoted(activation_field) + " is " + QuotedName(activation) +
                              "; only '" + wanted + "' is supported for this architecture");
  }
  double query_denominator = spec->head_dim;
  if (gemma) {
    HAYPILE_TRY_ASSIGN(query_denominator, fields.Number("query_pre_attn_scalar", 256.0));
    spec->embedding_scale = std::sqrt(static_cast<float>(spec->hidden_size));
  }
  spec->query_scale = static_cast<float>(1.0 / std::sqrt(query_denominator));
  return {};
}

// One layer's kind by `layer_types`.
Result<bool> Slides(const ConfigFields& fields, const Json& types, size_t layer) {
  const Json& type = types[layer];
  if (type.is_string() && type == "full_attention") return false;
  if (type.is_string() && type == "sliding_attention") return true;
  return fields.Unsupported("layer " + std::to_string(layer) + " in field " + fields.Quoted("layer_types") + " is " +
                            (type.is_string() ? QuotedName(type.get<std::string>()) : "not a string") +
                            "; full_attention and sliding_attention are supported");
}

Status ReadLayerTypes(const ConfigFields& fields, int window, ModelSpec* spec) {
  const Json& types = *fields.Find("layer_types");
  if (!types.is_array() || types.size() != spec->layers.size()) {
    return fields.Malformed("field " + fields.Quoted("layer_types") + " is not an array of " +
                            std::to_string(spec->layer_count) + " layers");
  }
  for (size_t i = 0; i < spec->layers.size(); ++i) {
    HAYPILE_TRY_ASSIGN(const bool slides, Slides(fields, types, i));
    if (slides) spec->layers[i] = {window, spec->family == ModelFamily::kGemma3};
  }
  return {};
}

Status ReadGemma3Layers(const ConfigFields& fields, ModelSpec* spec) {
  HAYPILE_TRY_ASSIGN(const int window, fields.SmallInt("sliding_window", 4096));
  if (window < 1) return fields.Malformed("field " + fields.Quoted("sliding_window") + " is 0");
  if (fields.Has("layer_types")) return ReadLayerTypes(fields, window, spec);
  HAYPILE_TRY_ASSIGN(const int older_name, fields.SmallInt("_sliding_window_pattern", 6));
  HAYPILE_TRY_ASSIGN(const int period, fields.SmallInt("sliding_window_pattern", older_name));
  if (period < 1) return fields.Malformed("field " + fields.Quoted("sliding_window_pattern") + " is 0");
  SetSlidingPattern(period, window, spec);
  return {};
}

Status ReadQwenLayers(const ConfigFields& fields, ModelSpec* spec) {
  HAYPILE_TRY_ASSIGN(const bool uses_window, fields.Bool("use_sliding_window", false));
  HAYPILE_TRY_ASSIGN(const int size, fields.SmallInt("sliding_window", 0));
  const int window = uses_window ? size : 0;
  if (fields.Has("layer_types")) return ReadLayerTypes(fields, window, spec);
  if (window == 0) return {};
  HAYPILE_TRY_ASSIGN(const int first_sliding, fields.SmallInt("max_window_layers", 28));
  for (int i = first_sliding; i < spec->layer_count; ++i) spec->layers[static_cast<size_t>(i)].window = window;
  return {};
}

// Mistral's window holds for every layer; llama has none.
Status ReadLlamaLayers(const ConfigFields& fields, bool mistral, ModelSpec* spec) {
  HAYPILE_TRY_ASSIGN(const int window, fields.SmallInt("sliding_window", 0));
  if (!mistral && window != 0) {
    return fields.Unsupported("field " + fields.Quoted("sliding_window") + " is " + std::to_string(window) +
                              ", but architecture 'llama' has no sliding window");
  }
  if (fields.Has("layer_types")) return ReadLayerTypes(fields, window, spec);
  for (LayerSpec& layer : spec->layers) layer.window = window;
  return {};
}

Result<ModelSpec> ReadSpec(const std::string& name, const ConfigFields& fields) {
  HAYPILE_TRY_ASSIGN(const FamilyDefaults* family, FindFamily(fields));
  HAYPILE_TRY(RefuseUnknownFeatures(fields));
  ModelSpec spec;
  spec.family = family->family;
  spec.architecture = family->model_type;
  HAYPILE_TRY(ReadSizes(fields, *family, &spec));
  HAYPILE_TRY(ReadArithmetic(fields, *family, &spec));
  HAYPILE_TRY(ReadConfigRope(fields, &spec));
  HAYPILE_TRY(CheckModelSpec(spec, "'" + name + "'"));
  spec.layers.assign(static_cast<size_t>(spec.layer_count), LayerSpec{});
  switch (spec.family) {
    case ModelFamily::kLlama:
      HAYPILE_TRY(ReadLlamaLayers(fields, family->model_type == "mistral", &spec));
      break;
    case ModelFamily::kQwen2:
    case ModelFamily::kQwen3:
      HAYPILE_TRY(ReadQwenLayers(fields, &spec));
      break;
    case ModelFamily::kGemma3:
      HAYPILE_TRY(ReadGemma3Layers(fields, &spec));
      break;
  }
  return spec;
}

}  // namespace

Result<ModelSpec> ModelSpecFromConfig(const std::string& name, std::string_view text) {
  Result<Json> parsed = ParseJson(text);
  if (!parsed.ok()) return std::move(parsed).error().WithContext("'" + name + "'");
  const Json& json = *parsed;
  if (!json.is_object()) return Error(ErrorCode::kMalformed, "'" + name + "': not a JSON object");
  const ConfigFields fields(json, name);
  HAYPILE_TRY_ASSIGN(const std::string type, fields.String("model_type"));
  if (type != "gemma3") return ReadSpec(name, fields);
  HAYPILE_TRY(RefuseUnknownFeatures(fields));
  HAYPILE_TRY_ASSIGN(const ConfigFields text_fields, fields.Nested("text_config"));
  HAYPILE_TRY_ASSIGN(ModelSpec spec, ReadSpec(name, text_fields));
  // The outer object decides whether the output is tied when it says so.
  HAYPILE_TRY_ASSIGN(spec.tied_output, fields.Bool("tie_word_embeddings", spec.tied_output));
  return spec;
}

}  // namespace haypile
