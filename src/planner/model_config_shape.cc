#include "planner/model_config_shape.h"

#include "base/json.h"

namespace haypile {
namespace {

// MPT and DBRX keep their KV heads in a nested object.
Result<int64_t> NestedKvHeads(const ConfigObject& config) {
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> attention, config.Object("attn_config"));
  if (!attention) return 0;
  return attention->Int("kv_n_heads", 1, kMaxHeads, 0);
}

// Falcon: with the new decoder num_kv_heads counts; without it, multi_query means one head, else as many as queries.
Result<int64_t> FalconKvHeads(const ConfigObject& config, int64_t query_heads) {
  HAYPILE_TRY_ASSIGN(const bool new_decoder, config.Bool("new_decoder_architecture", config.Has("n_head_kv")));
  HAYPILE_TRY_ASSIGN(const bool multi_query, config.Bool("multi_query", false));
  HAYPILE_TRY_ASSIGN(const int64_t heads,
                     config.IntOf({"num_kv_heads", "n_head_kv"}, 1, kMaxHeads, std::optional<int64_t>(query_heads)));
  if (new_decoder) return heads;
  return multi_query ? 1 : query_heads;
}

Result<int64_t> ReadKvHeads(const ConfigObject& config, const ConfigFamily& family, int64_t query_heads) {
  if (family.model_type == "falcon" || family.model_type.starts_with("RefinedWeb")) {
    return FalconKvHeads(config, query_heads);
  }
  HAYPILE_TRY_ASSIGN(const int64_t nested, NestedKvHeads(config));
  if (nested != 0) return nested;
  HAYPILE_TRY_ASSIGN(const bool multi_query, config.Bool("multi_query", false));
  HAYPILE_TRY_ASSIGN(const bool grouped, config.Bool("multi_query_attention", false));
  if (grouped) return config.Int("multi_query_group_num", 1, kMaxHeads);
  const std::string_view field =
      config.FirstOf({"num_key_value_heads", "n_head_kv", "num_kv_heads", "n_kv_heads", "decoder_kv_heads"});
  if (!field.empty()) return config.Int(field, 1, kMaxHeads);
  if (multi_query) return 1;
  if (query_heads == 0) return config.Int("num_key_value_heads", 1, kMaxHeads);
  return query_heads;
}

Result<int64_t> ReadHeadDim(const ConfigObject& config, const ModelShape& shape) {
  const std::string_view field =
      config.FirstOf({"head_dim", "attention_head_dim", "d_kv", "kv_channels", "n_embd_head"});
  if (!field.empty()) return config.Int(field, 1, kMaxHeadDim);
  if (config.Has("head_dim_derived")) return config.Int("head_dim_derived", 1, kMaxHeadDim);
  if (shape.family.head_dim != 0) return shape.family.head_dim;
  if (shape.query_heads == 0 || shape.hidden == 0) return config.Int("head_dim", 1, kMaxHeadDim);
  if (shape.hidden % shape.query_heads != 0) {
    return config.Malformed("field " + config.Quoted("head_dim") + " is missing, and hidden size " +
                            std::to_string(shape.hidden) + " does not divide into " +
                            std::to_string(shape.query_heads) + " heads; expected a head_dim");
  }
  return shape.hidden / shape.query_heads;
}

Status ReadLatentSizes(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(shape->q_lora_rank, config.Int("q_lora_rank", 0, kMaxWidth, 0));
  HAYPILE_TRY_ASSIGN(shape->kv_lora_rank, config.Int("kv_lora_rank", 1, kMaxWidth, 0));
  if (shape->kv_lora_rank == 0) {
    if (shape->q_lora_rank == 0 || shape->family.model_type == "deepseek_v4") return {};
    return config.Unsupported("field " + config.Quoted("q_lora_rank") + " is " + std::to_string(shape->q_lora_rank) +
                              " without " + config.Quoted("kv_lora_rank") +
                              " or an architecture that is known: its compressed cache is not understood");
  }
  if (!shape->family.Is(kMlaCache)) {
    return config.Unsupported("field " + config.Quoted("kv_lora_rank") + " is " + std::to_string(shape->kv_lora_rank) +
                              ", but how architecture '" + shape->model_type + "' caches its latent row is not known");
  }
  HAYPILE_TRY_ASSIGN(shape->rope_dim, config.Int("qk_rope_head_dim", 1, kMaxHeadDim));
  HAYPILE_TRY_ASSIGN(shape->nope_dim, config.Int("qk_nope_head_dim", 1, kMaxHeadDim, 0));
  HAYPILE_TRY_ASSIGN(shape->head_dim_v, config.Int("v_head_dim", 1, kMaxHeadDim, 0));
  shape->head_dim = shape->nope_dim == 0 ? 0 : shape->nope_dim + shape->rope_dim;
  return {};
}

Status ReadIndexer(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(shape->index_head_dim, config.Int("index_head_dim", 1, kMaxHeadDim, 0));
  HAYPILE_TRY_ASSIGN(shape->index_heads, config.Int("index_n_heads", 1, kMaxHeads, 0));
  if (shape->index_head_dim == 0 || shape->kv_lora_rank != 0 || shape->family.model_type == "deepseek_v4") return {};
  return config.Unsupported("field " + config.Quoted("index_head_dim") + " is " +
                            std::to_string(shape->index_head_dim) + " without " + config.Quoted("kv_lora_rank") +
                            ": its sparse attention is not understood");
}

Status ReadHeads(const ConfigObject& config, ModelShape* shape) {
  const bool stateless_heads =
      shape->family.state == StateFields::kMamba1 || shape->family.state == StateFields::kMamba2;
  if (stateless_heads) return {};
  HAYPILE_TRY_ASSIGN(
      shape->query_heads,
      config.IntOf({"num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"}, 1, kMaxHeads));
  HAYPILE_TRY(ReadLatentSizes(config, shape));
  HAYPILE_TRY(ReadIndexer(config, shape));
  if (shape->kv_lora_rank != 0) {
    (void)config.FirstOf({"head_dim", "num_key_value_heads"});
    shape->kv_heads = shape->query_heads;
    return {};
  }
  if (shape->family.model_type == "nemotron-nas" || config.Has("num_kv_heads_per_layer")) {
    shape->kv_heads = shape->query_heads;
  } else {
    HAYPILE_TRY_ASSIGN(shape->kv_heads, ReadKvHeads(config, shape->family, shape->query_heads));
  }
  HAYPILE_TRY_ASSIGN(shape->head_dim, ReadHeadDim(config, *shape));
  HAYPILE_TRY_ASSIGN(shape->head_dim_v, config.Int("v_head_dim", 1, kMaxHeadDim, shape->head_dim));
  return {};
}

Result<int64_t> ReadLayerCount(const ConfigObject& config, const ConfigFamily& family) {
  // Only these families call their layers "num_layers": elsewhere it counts something else.
  if (family.model_type == "chatglm") return config.Int("num_layers", 1, kMaxLayers);
  if (family.model_type == "t5" || family.model_type == "mt5") {
    return config.IntOf({"num_decoder_layers", "num_layers"}, 1, kMaxLayers);
  }
  const std::string_view field = config.FirstOf({"num_hidden_layers", "n_layer", "n_layers", "decoder_layers"});
  if (family.Is(kEncoderDecoder)) return config.Int("decoder_layers", 1, kMaxLayers);
  if (!field.empty()) return config.Int(field, 1, kMaxLayers);
  for (const std::string_view list : {"layers_block_type", "layer_types"}) {
    if (!config.Has(list)) continue;
    HAYPILE_TRY_ASSIGN(const std::vector<std::string> types, config.Strings(list));
    if (!types.empty()) return static_cast<int64_t>(types.size());
  }
  return config.Int("num_hidden_layers", 1, kMaxLayers);
}

// Gemma 4: layers that see everything have heads of their own; with attention_k_eq_v fewer KV heads, whose K is V.
Status ReadGlobalHeads(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const int64_t head_dim, config.Int("global_head_dim", 1, kMaxHeadDim, shape->full.head_dim_k));
  if (config.Has("global_head_dim")) shape->full.head_dim_k = shape->full.head_dim_v = head_dim;
  HAYPILE_TRY_ASSIGN(shape->full_value_is_key, config.Bool("attention_k_eq_v", false));
  HAYPILE_TRY_ASSIGN(const int64_t kv_heads,
                     config.Int("num_global_key_value_heads", 1, kMaxHeads, shape->full.kv_heads));
  if (shape->full_value_is_key) shape->full.kv_heads = kv_heads;
  return {};
}

// MiMo-V2: sliding layers have heads of their own.
Status ReadSlidingHeads(const ConfigObject& config, HeadShape* heads) {
  HAYPILE_TRY_ASSIGN(heads->query_heads, config.Int("swa_num_attention_heads", 1, kMaxHeads, heads->query_heads));
  HAYPILE_TRY_ASSIGN(heads->kv_heads, config.Int("swa_num_key_value_heads", 1, kMaxHeads, heads->kv_heads));
  HAYPILE_TRY_ASSIGN(heads->head_dim_k, config.Int("swa_head_dim", 1, kMaxHeadDim, heads->head_dim_k));
  HAYPILE_TRY_ASSIGN(heads->head_dim_v, config.Int("swa_v_head_dim", 1, kMaxHeadDim, heads->head_dim_v));
  return {};
}

Status CheckHeadsDivide(const ConfigObject& config, const HeadShape& heads) {
  if (heads.kv_heads == 0 || heads.query_heads % heads.kv_heads == 0) return {};
  return config.Malformed("fields " + config.Quoted("num_attention_heads") + " and " +
                          config.Quoted("num_key_value_heads") + " give " + std::to_string(heads.query_heads) +
                          " query heads and " + std::to_string(heads.kv_heads) +
                          " KV heads; expected query heads that divide evenly among KV heads");
}

Status ReadHeadShapes(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY(ReadHeads(config, shape));
  shape->full = {shape->query_heads, shape->kv_heads, shape->head_dim, shape->head_dim_v};
  shape->sliding = shape->full;
  HAYPILE_TRY(ReadGlobalHeads(config, shape));
  HAYPILE_TRY(ReadSlidingHeads(config, &shape->sliding));
  HAYPILE_TRY(CheckHeadsDivide(config, shape->full));
  return CheckHeadsDivide(config, shape->sliding);
}

}  // namespace

Result<ModelShape> ReadModelSizes(const ConfigObject& config, const ConfigFamily& family) {
  ModelShape shape;
  shape.family = family;
  HAYPILE_TRY_ASSIGN(shape.model_type, config.String("model_type"));
  HAYPILE_TRY_ASSIGN(shape.layers, ReadLayerCount(config, family));
  HAYPILE_TRY_ASSIGN(shape.hidden, config.IntOf({"hidden_size", "n_embd", "d_model", "n_embed"}, 1, kMaxWidth, 0));
  HAYPILE_TRY_ASSIGN(shape.vocabulary, config.IntOf({"vocab_size", "padded_vocab_size"}, 1, kMaxCount, 0));
  HAYPILE_TRY_ASSIGN(shape.max_positions,
                     config.IntOf({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
                                   "max_sequence_length", "max_target_positions", "model_max_length"},
                                  1, kMaxPositions, 0));
  HAYPILE_TRY(ReadHeadShapes(config, &shape));
  return shape;
}

}  // namespace haypile
