#include "planner/model_config.h"

#include <algorithm>

#include "base/json.h"
#include "planner/model_config_fields.h"
#include "planner/model_config_shape.h"
#include "planner/model_config_weights.h"
#include "planner/parameter_count.h"

namespace haypile {
namespace {

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Python writes Infinity, -Infinity and NaN, which are no JSON. Outside strings they become null of the same length, so
// that byte positions in messages stay true.
std::string WithoutPythonNumbers(std::string_view text) {
  std::string json(text);
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (in_string) {
      if (json[i] == '\\')
        ++i;
      else if (json[i] == '"')
        in_string = false;
      continue;
    }
    if (json[i] == '"') in_string = true;
    if (i > 0 && IsWordCharacter(json[i - 1])) continue;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (std::string_view(json).substr(i, word.size()) != word) continue;
      if (i + word.size() < json.size() && IsWordCharacter(json[i + word.size()])) continue;
      std::string null(word.size(), ' ');
      json.replace(i, word.size(), word == "NaN" ? "0  " : null.replace(0, 4, "null"));
      break;
    }
  }
  return json;
}

// The object that describes the decoder: the file itself, or one of the places where models of several parts keep it.
Result<ConfigObject> DecoderPart(const ConfigObject& outer) {
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> thinker, outer.Object("thinker_config"));
  if (thinker) return DecoderPart(*thinker);
  for (const std::string_view field : {"text_config", "llm_config", "language_config", "language_model_config"}) {
    HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> part, outer.Object(field));
    if (part && !part->json().empty()) return *part;
  }
  return outer;
}

Result<std::string> FirstArchitecture(const ConfigObject& config) {
  if (!config.IsSet("architectures")) return std::string();
  HAYPILE_TRY_ASSIGN(const std::vector<std::string> names, config.Strings("architectures"));
  return names.front();
}

int Narrow(int64_t value) { return static_cast<int>(value); }

LayerGeometry AttentionLayer(const ModelShape& shape, const BlockPlan& block) {
  const HeadShape heads = shape.HeadsOf(block);
  LayerGeometry layer;
  layer.kv_heads = Narrow(heads.kv_heads);
  layer.head_dim_k = Narrow(heads.head_dim_k);
  layer.head_dim_v = Narrow(heads.head_dim_v);
  switch (block.attention) {
    case Attention::kNone:
      break;
    case Attention::kFull:
      if (shape.kv_lora_rank == 0) break;
      layer.cache = CacheKind::kMla;
      layer.kv_lora_rank = Narrow(shape.kv_lora_rank);
      layer.rope_dim = Narrow(shape.rope_dim);
      layer.index_head_dim = Narrow(shape.index_head_dim);
      break;
    case Attention::kSliding:
      layer.cache = CacheKind::kSlidingWindow;
      layer.window = Narrow(shape.window);
      break;
    case Attention::kChunked:
      layer.cache = CacheKind::kChunkedAttention;
      layer.window = Narrow(shape.window);
      break;
    case Attention::kCross:
      layer.cache = CacheKind::kCrossAttention;
      break;
  }
  return layer;
}

void AppendBlock(const ModelShape& shape, const BlockPlan& block, int index, std::vector<LayerGeometry>* layers) {
  const size_t before = layers->size();
  if (block.attention != Attention::kNone) layers->push_back(AttentionLayer(shape, block));
  if (block.cross_attention) {
    LayerGeometry cross = AttentionLayer(shape, block);
    cross.cache = CacheKind::kCrossAttention;
    layers->push_back(cross);
  }
  if (block.state) {
    LayerGeometry state;
    state.cache = CacheKind::kStateSpace;
    state.state = shape.state;
    layers->push_back(state);
  }
  if (layers->size() == before) {
    LayerGeometry none;
    none.cache = CacheKind::kNone;
    layers->push_back(none);
  }
  for (size_t i = before; i < layers->size(); ++i) (*layers)[i].index = index;
}

// Gemma 3n and 4: the last num_kv_shared_layers read the cache of the last earlier layer of their own kind.
Status ShareCaches(const ConfigObject& config, std::vector<LayerGeometry>* layers) {
  const int64_t count = static_cast<int64_t>(layers->size());
  HAYPILE_TRY_ASSIGN(const int64_t shared, config.Int("num_kv_shared_layers", 0, count - 1, 0));
  const auto first_shared = static_cast<size_t>(count - shared);
  for (size_t i = first_shared; i < layers->size(); ++i) {
    LayerGeometry& layer = (*layers)[i];
    for (size_t j = 0; j < first_shared; ++j) {
      if ((*layers)[j].cache == layer.cache) layer.kv_shared_with = Narrow(static_cast<int64_t>(j));
    }
    if (layer.kv_shared_with < 0) {
      return config.Malformed("field " + config.Quoted("num_kv_shared_layers") + " is " + std::to_string(shared) +
                              ", but no earlier layer is of the kind of layer " + std::to_string(i) + " (" +
                              CacheKindName(layer.cache) + "); expected one to share with");
    }
  }
  for (size_t i = first_shared; i < layers->size(); ++i) (*layers)[i].cache = CacheKind::kNone;
  return {};
}

// DeepSeek-V4: ratio 0 keeps the window only; others a compressed row of every `ratio` tokens besides; ratio 4 is the
// one with an indexer. The list goes on for the multi-token-prediction layers.
Status ReadCompressedLayers(const ConfigObject& config, const ModelShape& shape, ModelGeometry* model) {
  HAYPILE_TRY_ASSIGN(const std::vector<int64_t> ratios, config.Ints("compress_ratios", 0, kMaxCount));
  HAYPILE_TRY_ASSIGN(const int64_t rope_dim, config.Int("qk_rope_head_dim", 1, shape.head_dim - 1));
  const size_t all = model->layers.size() + model->mtp_layers.size();
  if (ratios.size() != model->layers.size() && ratios.size() != all) {
    return config.Malformed("field " + config.Quoted("compress_ratios") + " has " + std::to_string(ratios.size()) +
                            " entries; expected one for each of the " + std::to_string(model->layers.size()) +
                            " layers, and of the " + std::to_string(model->mtp_layers.size()) + " prediction layers");
  }
  for (size_t i = 0; i < all; ++i) {
    const bool mtp = i >= model->layers.size();
    LayerGeometry& layer = mtp ? model->mtp_layers[i - model->layers.size()] : model->layers[i];
    const int64_t ratio = i < ratios.size() ? ratios[i] : 0;
    layer.cache = CacheKind::kMla;
    layer.rope_dim = Narrow(rope_dim);
    layer.kv_lora_rank = Narrow(shape.head_dim - rope_dim);
    layer.window = Narrow(shape.window);
    layer.compress_ratio = Narrow(ratio);
    layer.index_head_dim = ratio == 4 ? Narrow(shape.index_head_dim) : 0;
  }
  return {};
}

// GLM-5.2: "shared" layers reuse the selection of the last "full" one and have no indexer of their own.
Status ReadIndexerTypes(const ConfigObject& config, ModelGeometry* model) {
  (void)config.FirstOf({"index_skip_topk_offset", "index_share_for_mtp_iteration", "index_topk_pattern"});
  if (!config.IsSet("indexer_types")) {
    HAYPILE_TRY_ASSIGN(const int64_t every, config.Int("index_topk_freq", 1, kMaxLayers, 1));
    if (every == 1) return {};
    return config.Unsupported("field " + config.Quoted("index_topk_freq") + " is " + std::to_string(every) +
                              " without " + config.Quoted("indexer_types") +
                              ", which tells the layers with an indexer");
  }
  (void)config.Find("index_topk_freq");
  HAYPILE_TRY_ASSIGN(const std::vector<std::string> types, config.Strings("indexer_types"));
  if (types.size() != model->layers.size()) return config.Unexpected("indexer_types", "one entry for each layer");
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "shared") {
      model->layers[i].index_head_dim = 0;
    } else if (types[i] != "full") {
      return config.Unsupported("entry " + std::to_string(i) + " of field " + config.Quoted("indexer_types") + " is " +
                                ShortText(Json(types[i])) + "; full and shared are understood");
    }
  }
  return {};
}

// The attention layers of the multi-token-prediction modules. A pattern (Nemotron-H) says which of a module's layers
// attend; without one a module is one layer of the model's full-attention kind.
Status ReadPredictionLayers(const ConfigObject& config, const ModelShape& shape, ModelGeometry* model) {
  (void)config.FirstOf({"mtp_transformer_layers", "use_mtp"});
  HAYPILE_TRY_ASSIGN(const int64_t modules,
                     config.IntOf({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}, 0, 64, 0));
  int64_t attention_layers = 1;
  if (config.IsSet("mtp_hybrid_override_pattern")) {
    HAYPILE_TRY_ASSIGN(const std::string pattern, config.String("mtp_hybrid_override_pattern"));
    attention_layers = std::count(pattern.begin(), pattern.end(), '*');
  } else if (config.IsSet("mtp_layers_block_type")) {
    HAYPILE_TRY_ASSIGN(const std::vector<std::string> types, config.Strings("mtp_layers_block_type"));
    attention_layers = std::count(types.begin(), types.end(), "attention");
  }
  LayerGeometry layer = AttentionLayer(shape, BlockPlan{});
  for (int64_t i = 0; i < modules * attention_layers; ++i) {
    layer.index = Narrow(shape.layers + i);
    model->mtp_layers.push_back(layer);
  }
  return {};
}

Status ReadEncoderTokens(const ConfigObject& config, const ConfigObject& outer, const ModelShape& shape,
                         ModelGeometry* model) {
  const bool crosses = std::any_of(model->layers.begin(), model->layers.end(), [](const LayerGeometry& layer) {
    return layer.cache == CacheKind::kCrossAttention;
  });
  if (!crosses) return {};
  if (shape.family.Is(kEncoderDecoder)) {
    HAYPILE_TRY_ASSIGN(
        model->encoder_tokens,
        config.IntOf({"max_source_positions", "max_position_embeddings", "n_positions"}, 1, kMaxPositions, 0));
    return {};
  }
  // Llama 3.2 Vision: every tile is (image / patch)^2 patches and one class token.
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> vision, outer.Object("vision_config"));
  if (!vision) return {};
  HAYPILE_TRY_ASSIGN(const int64_t image, vision->Int("image_size", 1, 65536));
  HAYPILE_TRY_ASSIGN(const int64_t patch, vision->Int("patch_size", 1, image));
  HAYPILE_TRY_ASSIGN(const int64_t tiles, vision->Int("max_num_tiles", 1, 1024));
  model->encoder_tokens = tiles * ((image / patch) * (image / patch) + 1);
  return {};
}

Status ReadLayers(const ConfigObject& config, const ConfigObject& outer, const ModelShape& shape,
                  ModelGeometry* model) {
  for (size_t i = 0; i < shape.blocks.size(); ++i) {
    AppendBlock(shape, shape.blocks[i], Narrow(static_cast<int64_t>(i)), &model->layers);
  }
  HAYPILE_TRY(ShareCaches(config, &model->layers));
  HAYPILE_TRY(ReadPredictionLayers(config, shape, model));
  if (shape.family.model_type == "deepseek_v4") HAYPILE_TRY(ReadCompressedLayers(config, shape, model));
  if (shape.index_head_dim != 0) HAYPILE_TRY(ReadIndexerTypes(config, model));
  HAYPILE_TRY_ASSIGN(const bool swa_sinks, config.Bool("add_swa_attention_sink_bias", false));
  HAYPILE_TRY_ASSIGN(const bool full_sinks, config.Bool("add_full_attention_sink_bias", false));
  model->attention_sinks = shape.family.Is(kAttentionSinks) || swa_sinks || full_sinks;
  return ReadEncoderTokens(config, outer, shape, model);
}

// DeepSeek-V4: expert_dtype says that the routed experts are stored in another format than the rest.
Status MixExpertFormat(const ConfigObject& config, const ParameterTotals& count, ModelGeometry* model) {
  HAYPILE_TRY_ASSIGN(const std::string expert_dtype, config.String("expert_dtype"));
  const int64_t quantized = model->parameters - model->unquantized_parameters;
  if (expert_dtype != "fp4" || model->weights.name != "fp8" || quantized < count.experts || quantized == 0) return {};
  constexpr double kMxfp4Bits = 4 + 8.0 / 32;
  const double share = static_cast<double>(count.experts) / static_cast<double>(quantized);
  model->weights.bits = share * kMxfp4Bits + (1 - share) * model->weights.bits;
  model->weights.name = "fp8, experts mxfp4";
  return {};
}

Status ReadParameters(const ConfigObject& config, const ConfigObject& outer, const ModelShape& shape,
                      const KeptShares& kept, ModelGeometry* model) {
  HAYPILE_TRY_ASSIGN(const ParameterTotals count, CountParameters(config, outer, shape));
  model->tied_embeddings = count.tied_embeddings;
  // Without a model type nobody can say which of a model's layers have experts, or whether its embeddings are one.
  const bool nameless = shape.model_type.empty() && shape.architecture.empty();
  if (nameless && (count.experts != 0 || !config.Has("tie_word_embeddings"))) return {};
  model->parameters = count.Total();
  model->active_parameters = count.Active();
  const auto part = [](double share, int64_t parameters) {
    return static_cast<int64_t>(share * static_cast<double>(parameters));
  };
  model->unquantized_parameters = count.embeddings + count.small + part(kept.attention, count.attention) +
                                  part(kept.dense, count.dense) + part(kept.shared_experts, count.shared_experts) +
                                  part(kept.experts, count.experts);
  return MixExpertFormat(config, count, model);
}

Result<ModelGeometry> ReadModel(const ConfigObject& outer, const std::string& name, std::string_view hf_quant_config) {
  HAYPILE_TRY_ASSIGN(const ConfigObject text, DecoderPart(outer));
  ModelGeometry model;
  model.name = name;
  HAYPILE_TRY_ASSIGN(model.architecture, FirstArchitecture(outer));
  HAYPILE_TRY_ASSIGN(const std::string text_architecture, FirstArchitecture(text));
  HAYPILE_TRY_ASSIGN(model.model_type, text.String("model_type"));
  const bool nested = &text.json() != &outer.json();
  if (model.model_type.empty() && nested) {
    HAYPILE_TRY_ASSIGN(model.model_type, outer.String("model_type"));
  }
  HAYPILE_TRY_ASSIGN(
      const ConfigFamily family,
      FindFamily(text, model.model_type, text_architecture.empty() ? model.architecture : text_architecture));
  if (model.architecture.empty()) model.architecture = text_architecture;
  HAYPILE_TRY_ASSIGN(ModelShape shape, ReadModelSizes(text, family));
  shape.architecture = model.architecture;
  shape.model_type = model.model_type;
  HAYPILE_TRY(ReadBlocks(text, &shape));
  const bool has_state =
      std::any_of(shape.blocks.begin(), shape.blocks.end(), [](const BlockPlan& block) { return block.state; });
  if (has_state) {
    HAYPILE_TRY_ASSIGN(shape.state, ReadStateShape(text, shape));
  }
  HAYPILE_TRY(ReadExpertBlocks(text, &shape));
  HAYPILE_TRY(ReadLayers(text, outer, shape, &model));
  KeptShares kept;
  HAYPILE_TRY(ReadWeightFormat({text, outer, hf_quant_config, shape.blocks}, &model, &kept));
  HAYPILE_TRY(ReadParameters(text, outer, shape, kept, &model));
  model.query_heads = Narrow(shape.query_heads);
  model.hidden_size = Narrow(shape.hidden);
  model.vocabulary_size = shape.vocabulary;
  model.max_positions = shape.max_positions;
  model.generic_kv_heads = Narrow(shape.kv_heads);
  model.generic_head_dim = Narrow(shape.head_dim);
  HAYPILE_TRY(RefuseUnreadCacheFields(text));
  return model;
}

}  // namespace

Result<ModelGeometry> ParseModelConfig(std::string_view config_json, const std::string& name,
                                       std::string_view hf_quant_config) {
  Result<Json> json = ParseJson(WithoutPythonNumbers(config_json));
  if (!json.ok()) return std::move(json).error().WithContext("'" + name + "'");
  const ConfigObject outer(*json, name);
  if (!json->is_object()) return outer.Malformed("the config is " + ShortText(*json) + "; expected a JSON object");
  return ReadModel(outer, name, hf_quant_config);
}

}  // namespace haypile
