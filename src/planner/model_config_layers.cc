#include <algorithm>

#include "base/json.h"
#include "planner/model_config_shape.h"

namespace haypile {
namespace {

constexpr BlockPlan kFull = {};
constexpr BlockPlan kSliding = {.attention = Attention::kSliding};
constexpr BlockPlan kChunked = {.attention = Attention::kChunked};
constexpr BlockPlan kState = {.attention = Attention::kNone, .state = true};
constexpr BlockPlan kBoth = {.attention = Attention::kFull, .state = true};

// Field spellings that say the same as another one that decided; asked for so that they count as read.
void MarkRead(const ConfigObject& config) {
  (void)config.FirstOf({"sliding_window", "sliding_window_pattern", "_sliding_window_pattern", "max_window_layers",
                        "use_sliding_window", "full_attention_interval", "attention_chunk_size", "no_rope_layers",
                        "no_rope_layer_interval", "layer_types", "attn_layer_indices", "attn_type_list",
                        "full_attn_idxs", "sliding_window_size", "swa_layers"});
}

Error WrongLength(const ConfigObject& config, std::string_view field, size_t length, int64_t layers) {
  return config.Malformed("field " + config.Quoted(field) + " names " + std::to_string(length) +
                          " layers; expected one for each of the " + std::to_string(layers) + " layers");
}

// The window of layers that slide.
Status ReadWindow(const ConfigObject& config, ModelShape* shape) {
  const std::optional<int64_t> absent =
      shape->family.default_window == 0 ? std::nullopt : std::optional<int64_t>(shape->family.default_window);
  HAYPILE_TRY_ASSIGN(shape->window, config.IntOf({"sliding_window", "sliding_window_size"}, 1, kMaxCount, absent));
  return {};
}

Result<std::optional<int64_t>> ReadChunkLength(const ConfigObject& config) {
  if (!config.Has("attention_chunk_size")) return std::optional<int64_t>();
  HAYPILE_TRY_ASSIGN(const int64_t chunk, config.Int("attention_chunk_size", 1, kMaxCount));
  return std::optional<int64_t>(chunk);
}

// Nothing when the name is not known, or names a state layer in a family that has none.
std::optional<BlockPlan> BlockByName(const std::string& name, bool family_has_state) {
  if (name == "full_attention" || name == "attention" || name == "global_attention" || name == "global" ||
      name == "deepseek_sparse_attention") {
    return kFull;
  }
  if (name == "sliding_attention" || name == "sliding_window_attention" || name == "local_attention" ||
      name == "local" || name == "sliding") {
    return kSliding;
  }
  if (name == "chunked_attention") return kChunked;
  if (!family_has_state) return std::nullopt;
  for (const std::string_view state : {"linear_attention", "mamba", "mamba2", "conv", "short_conv", "kda"}) {
    if (name == state) return kState;
  }
  if (name == "hybrid") return kBoth;
  return std::nullopt;
}

Status ReadNamedLayers(const ConfigObject& config, std::string_view field, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const std::vector<std::string> names, config.Strings(field));
  if (static_cast<int64_t>(names.size()) != shape->layers) {
    return WrongLength(config, field, names.size(), shape->layers);
  }
  const bool split = shape->family.state == StateFields::kMamba2Nemotron;  // attention, state and feed-forward apart
  for (const std::string& name : names) {
    std::optional<BlockPlan> block = BlockByName(name, shape->family.state != StateFields::kNone);
    if (block && split) block->feed_forward = FeedForward::kNone;
    if (split && name == "moe") block = {.attention = Attention::kNone, .feed_forward = FeedForward::kExperts};
    if (split && name == "mlp") block = {.attention = Attention::kNone, .feed_forward = FeedForward::kDense};
    if (!block) {
      return config.Unsupported("entry " + std::to_string(shape->blocks.size()) + " of field " + config.Quoted(field) +
                                " is " + ShortText(Json(name)) + ", a layer kind that is not understood for " +
                                "architecture '" + shape->model_type + "'");
    }
    shape->blocks.push_back(*block);
  }
  return {};
}

// Nemotron-H: M is Mamba 2, * attention, - a dense feed-forward layer, E one of experts.
Status ReadHybridPattern(const ConfigObject& config, ModelShape* shape) {
  std::string pattern;
  if (config.Find("hybrid_override_pattern")->is_array()) {  // some exporters write one letter an entry
    HAYPILE_TRY_ASSIGN(const std::vector<std::string> letters, config.Strings("hybrid_override_pattern"));
    for (const std::string& letter : letters) pattern += letter.size() == 1 ? letter : "?";
  } else {
    HAYPILE_TRY_ASSIGN(pattern, config.String("hybrid_override_pattern"));
  }
  if (static_cast<int64_t>(pattern.size()) != shape->layers) {
    return WrongLength(config, "hybrid_override_pattern", pattern.size(), shape->layers);
  }
  for (const char letter : pattern) {
    BlockPlan block = {.attention = Attention::kNone, .feed_forward = FeedForward::kNone};
    if (letter == 'M') {
      block.state = true;
    } else if (letter == '*') {
      block.attention = Attention::kFull;
    } else if (letter == '-') {
      block.feed_forward = FeedForward::kDense;
    } else if (letter == 'E') {
      block.feed_forward = FeedForward::kExperts;
    } else {
      return config.Unsupported("letter " + std::to_string(shape->blocks.size()) + " of field " +
                                config.Quoted("hybrid_override_pattern") + " is " +
                                ShortText(Json(std::string(1, letter))) + "; M, *, - and E are understood");
    }
    shape->blocks.push_back(block);
  }
  return {};
}

// Marks blocks by a list of indices that starts at `base`.
Status PlaceAt(const ConfigObject& config, std::string_view field, int64_t base, BlockPlan block, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const std::vector<int64_t> indices, config.Ints(field, base, shape->layers - 1 + base));
  for (const int64_t index : indices) shape->blocks[static_cast<size_t>(index - base)] = block;
  return {};
}

// Kimi-Linear: layers counted from 1; every layer is in exactly one list.
Status ReadKdaLayers(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> linear, config.Object("linear_attn_config"));
  if (!linear) return config.Malformed("field " + config.Quoted("linear_attn_config") + " is missing");
  constexpr BlockPlan kUnplaced = {.attention = Attention::kNone, .feed_forward = FeedForward::kNone};
  shape->blocks.assign(static_cast<size_t>(shape->layers), kUnplaced);
  HAYPILE_TRY(PlaceAt(*linear, "kda_layers", 1, kState, shape));
  HAYPILE_TRY(PlaceAt(*linear, "full_attn_layers", 1, kFull, shape));
  for (size_t i = 0; i < shape->blocks.size(); ++i) {
    if (shape->blocks[i].feed_forward != FeedForward::kNone) continue;
    return linear->Malformed("layer " + std::to_string(i + 1) + " is in neither " + linear->Quoted("kda_layers") +
                             " nor " + linear->Quoted("full_attn_layers") + "; expected every layer in one of them");
  }
  return {};
}

// Jamba: attention where index % period == offset, Mamba elsewhere.
Status ReadAttentionPeriod(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const int64_t period, config.Int("attn_layer_period", 1, kMaxLayers));
  HAYPILE_TRY_ASSIGN(const int64_t offset, config.Int("attn_layer_offset", 0, period - 1));
  for (int64_t i = 0; i < shape->layers; ++i) shape->blocks.push_back(i % period == offset ? kFull : kState);
  return {};
}

Error NoLayerKinds(const ConfigObject& config, const ModelShape& shape) {
  return config.Malformed("field " + config.Quoted("layer_types") + " is missing; expected the kind of each of the " +
                          std::to_string(shape.layers) + " layers, some of which keep a state");
}

Status ReadStateLayers(const ConfigObject& config, ModelShape* shape) {
  switch (shape->family.state) {
    case StateFields::kMamba1Prefixed:
      return ReadAttentionPeriod(config, shape);
    case StateFields::kKda:
      return ReadKdaLayers(config, shape);
    case StateFields::kDeltaNet: {
      if (!config.Has("full_attention_interval")) return NoLayerKinds(config, *shape);
      HAYPILE_TRY_ASSIGN(const int64_t interval, config.Int("full_attention_interval", 1, kMaxLayers));
      for (int64_t i = 0; i < shape->layers; ++i) shape->blocks.push_back((i + 1) % interval == 0 ? kFull : kState);
      return {};
    }
    case StateFields::kMamba1:
    case StateFields::kMamba2:
      shape->blocks.assign(static_cast<size_t>(shape->layers), kState);
      for (BlockPlan& block : shape->blocks) block.feed_forward = FeedForward::kNone;
      return {};
    case StateFields::kMamba2Falcon:
      shape->blocks.assign(static_cast<size_t>(shape->layers), kBoth);
      return {};
    case StateFields::kMamba2Prefixed:
      if (!config.Has("attn_layer_indices")) return NoLayerKinds(config, *shape);
      shape->blocks.assign(static_cast<size_t>(shape->layers), kState);
      return PlaceAt(config, "attn_layer_indices", 0, kFull, shape);
    case StateFields::kShortConv:
      if (!config.Has("full_attn_idxs")) return NoLayerKinds(config, *shape);
      shape->blocks.assign(static_cast<size_t>(shape->layers), kState);
      return PlaceAt(config, "full_attn_idxs", 0, kFull, shape);
    default:
      return NoLayerKinds(config, *shape);
  }
}

// Llama 4: layers with rotary positions attend in chunks; the others (0 in no_rope_layers, else every fourth) in full.
Status ReadChunkedLayers(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const int64_t interval, config.Int("no_rope_layer_interval", 1, kMaxLayers, 4));
  std::vector<int64_t> rope;
  if (config.IsSet("no_rope_layers")) {
    HAYPILE_TRY_ASSIGN(rope, config.Ints("no_rope_layers", 0, 1));
    if (static_cast<int64_t>(rope.size()) != shape->layers) {
      return WrongLength(config, "no_rope_layers", rope.size(), shape->layers);
    }
  } else {
    for (int64_t i = 0; i < shape->layers; ++i) rope.push_back((i + 1) % interval == 0 ? 0 : 1);
  }
  for (const int64_t with_rope : rope) shape->blocks.push_back(with_rope != 0 ? kChunked : kFull);
  return {};
}

// EXAONE 4 also spells its period "LLLG".
Result<std::string> PeriodLetters(const ConfigObject& config, const ConfigFamily& family) {
  const std::string_view field = config.FirstOf({"sliding_window_pattern", "_sliding_window_pattern"});
  const Json* value = field.empty() ? nullptr : config.Find(field);
  if (value != nullptr && value->is_string()) {
    const std::string letters = value->get<std::string>();
    const bool known =
        !letters.empty() && letters.size() <= kMaxLayers && letters.find_first_not_of("LG") == std::string::npos;
    if (!known) return config.Unexpected(field, "a whole number or letters L (sliding) and G (full)");
    return letters;
  }
  const std::optional<int64_t> absent = family.period == 0 ? std::nullopt : std::optional<int64_t>(family.period);
  HAYPILE_TRY_ASSIGN(const int64_t period,
                     config.Int(field.empty() ? "sliding_window_pattern" : field, 1, kMaxLayers, absent));
  return std::string(static_cast<size_t>(period - 1), 'L') + "G";
}

Status ReadPeriodicLayers(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const std::string letters, PeriodLetters(config, shape->family));
  for (size_t i = 0; i < static_cast<size_t>(shape->layers); ++i) {
    shape->blocks.push_back(letters[i % letters.size()] == 'L' ? kSliding : kFull);
  }
  if (shape->family.window == WindowRule::kPeriodicLastFull) shape->blocks.back() = kFull;
  return {};
}

Status ReadWindowedLayers(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const bool uses_window, config.Bool("use_sliding_window", true));
  const bool window_set = uses_window && config.Has("sliding_window");
  shape->blocks.assign(static_cast<size_t>(shape->layers), kFull);
  const bool told_period = config.Has("sliding_window_pattern") || config.Has("_sliding_window_pattern");
  const bool periodic =
      shape->family.window == WindowRule::kPeriodic || shape->family.window == WindowRule::kPeriodicLastFull;
  const bool null_window = config.json().contains("sliding_window") && !config.Has("sliding_window");
  if (!uses_window || null_window) return {};
  if (periodic || (told_period && window_set)) {
    if (!window_set && shape->family.default_window == 0) return {};
    shape->blocks.clear();
    return ReadPeriodicLayers(config, shape);
  }
  if (!window_set) return {};
  switch (shape->family.window) {
    case WindowRule::kWholeModel:
      shape->blocks.assign(static_cast<size_t>(shape->layers), kSliding);
      return {};
    case WindowRule::kFromLayer: {
      HAYPILE_TRY_ASSIGN(const bool used, config.Bool("use_sliding_window", false));
      if (!used) return {};
      HAYPILE_TRY_ASSIGN(const int64_t first, config.Int("max_window_layers", 0, kMaxCount));
      for (int64_t i = first; i < shape->layers; ++i) shape->blocks[static_cast<size_t>(i)] = kSliding;
      return {};
    }
    default:
      return config.Unsupported("field " + config.Quoted("sliding_window") + " is " +
                                ShortText(*config.Find("sliding_window")) + ", and which layers of architecture '" +
                                shape->model_type + "' slide is not known; expected " + config.Quoted("layer_types"));
  }
}

// MiMo-V2: 1 slides, 0 is full.
Status ReadHybridLayerPattern(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const std::vector<int64_t> slides, config.Ints("hybrid_layer_pattern", 0, 1));
  if (static_cast<int64_t>(slides.size()) != shape->layers) {
    return WrongLength(config, "hybrid_layer_pattern", slides.size(), shape->layers);
  }
  for (const int64_t slide : slides) shape->blocks.push_back(slide != 0 ? kSliding : kFull);
  return {};
}

// Nemotron-NAS: each block names its own group size, or has no attention.
Status ReadBlockConfigs(const ConfigObject& config, ModelShape* shape) {
  const Json* list = config.Find("block_configs");
  if (list == nullptr || !list->is_array()) return config.Unexpected("block_configs", "an array of blocks");
  if (static_cast<int64_t>(list->size()) != shape->layers) {
    return WrongLength(config, "block_configs", list->size(), shape->layers);
  }
  for (const Json& entry : *list) {
    const std::string prefix = "block_configs[" + std::to_string(shape->blocks.size()) + "].";
    if (!entry.is_object()) return config.Malformed("field '" + prefix + "' is not an object");
    const ConfigObject block(entry, config.model(), prefix);
    HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> attention, block.Object("attention"));
    if (!attention) return block.Malformed("field " + block.Quoted("attention") + " is missing");
    HAYPILE_TRY_ASSIGN(const bool none, attention->Bool("no_op", false));
    HAYPILE_TRY_ASSIGN(const bool linear, attention->Bool("replace_with_linear", false));
    for (const std::string_view field : {"window_length", "num_sink_tokens", "sparsify", "unshifted_sink"}) {
      if (attention->IsSet(field))
        return attention->Unsupported("field " + attention->Quoted(field) + " is not understood");
    }
    BlockPlan plan = kFull;
    if (none || linear) {
      plan.attention = Attention::kNone;
    } else {
      HAYPILE_TRY_ASSIGN(const int64_t group, attention->Int("n_heads_in_group", 1, shape->query_heads));
      if (shape->query_heads % group != 0) return attention->Unexpected("n_heads_in_group", "a divisor of the heads");
      plan.kv_heads = static_cast<int>(shape->query_heads / group);
    }
    shape->blocks.push_back(plan);
  }
  shape->kv_heads = 0;  // the model's own number is null: engines take the most of any block
  for (const BlockPlan& plan : shape->blocks) shape->kv_heads = std::max<int64_t>(shape->kv_heads, plan.kv_heads);
  return {};
}

// Lists whose entries all say "full attention" are redundant; others are not understood.
Status CheckAttentionTypeList(const ConfigObject& config) {
  if (!config.IsSet("attn_type_list")) return {};
  HAYPILE_TRY_ASSIGN(const std::vector<int64_t> types, config.Ints("attn_type_list", 0, 255));
  if (std::all_of(types.begin(), types.end(), [](int64_t type) { return type == 1; })) return {};
  return config.Unsupported("field " + config.Quoted("attn_type_list") +
                            " names layers of another kind than full attention (1): their state is not understood");
}

Status ReadPlainLayers(const ConfigObject& config, ModelShape* shape) {
  if (config.Has("hybrid_override_pattern")) return ReadHybridPattern(config, shape);
  if (config.Has("layers_block_type")) return ReadNamedLayers(config, "layers_block_type", shape);
  if (config.Has("hybrid_layer_pattern")) return ReadHybridLayerPattern(config, shape);
  if (config.Has("block_configs")) return ReadBlockConfigs(config, shape);
  if (shape->family.model_type != "deepseek_v4" && config.Has("layer_types")) {
    return ReadNamedLayers(config, "layer_types", shape);
  }
  if (shape->family.state != StateFields::kNone) return ReadStateLayers(config, shape);
  if (shape->family.model_type.starts_with("llama4")) return ReadChunkedLayers(config, shape);
  if (shape->family.model_type == "deepseek_v4") {
    shape->blocks.assign(static_cast<size_t>(shape->layers), kFull);
    return ReadWindow(config, shape);
  }
  return ReadWindowedLayers(config, shape);
}

// Sets the window or chunk length that the blocks need.
Status ReadBlockWindows(const ConfigObject& config, ModelShape* shape) {
  const auto uses = [shape](Attention kind) {
    return std::any_of(shape->blocks.begin(), shape->blocks.end(),
                       [kind](const BlockPlan& block) { return block.attention == kind; });
  };
  if (uses(Attention::kSliding)) return ReadWindow(config, shape);
  if (!uses(Attention::kChunked)) return {};
  HAYPILE_TRY_ASSIGN(const std::optional<int64_t> chunk, ReadChunkLength(config));
  if (chunk) {
    shape->window = *chunk;
    return {};
  }
  for (BlockPlan& block : shape->blocks) {
    if (block.attention == Attention::kChunked) block.attention = Attention::kFull;
  }
  return {};
}

Status ReadCrossAttention(const ConfigObject& config, ModelShape* shape) {
  if (config.IsSet("cross_attention_layers")) {
    return PlaceAt(config, "cross_attention_layers", 0, {.attention = Attention::kCross}, shape);
  }
  if (!shape->family.Is(kEncoderDecoder)) return {};
  for (BlockPlan& block : shape->blocks) block.cross_attention = true;
  return {};
}

}  // namespace

Status ReadBlocks(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY(CheckAttentionTypeList(config));
  HAYPILE_TRY(ReadPlainLayers(config, shape));
  HAYPILE_TRY(ReadBlockWindows(config, shape));
  HAYPILE_TRY(ReadCrossAttention(config, shape));
  MarkRead(config);
  return {};
}

}  // namespace haypile
