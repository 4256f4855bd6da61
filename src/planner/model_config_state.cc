#include "base/json.h"
#include "planner/model_config_shape.h"

namespace haypile {
namespace {

constexpr int64_t kMaxKernel = 4096;

// Reads one integer of a StateShape and narrows it.
Status ReadInto(const ConfigObject& config, std::initializer_list<std::string_view> fields, int64_t most, int* into) {
  HAYPILE_TRY_ASSIGN(const int64_t value, config.IntOf(fields, 1, most));
  *into = static_cast<int>(value);
  return {};
}

Status ReadChunk(const ConfigObject& config, std::string_view field, StateShape* state) {
  HAYPILE_TRY_ASSIGN(const int64_t chunk, config.Int(field, 1, kMaxCount, 0));
  state->chunk_size = static_cast<int>(chunk);
  return {};
}

Result<StateShape> ReadDeltaNet(const ConfigObject& config) {
  StateShape state{.kind = StateKind::kGatedDeltaNet};
  HAYPILE_TRY(ReadInto(config, {"linear_conv_kernel_dim"}, kMaxKernel, &state.conv_kernel));
  HAYPILE_TRY(ReadInto(config, {"linear_num_key_heads"}, kMaxHeads, &state.key_heads));
  HAYPILE_TRY(ReadInto(config, {"linear_num_value_heads"}, kMaxHeads, &state.value_heads));
  HAYPILE_TRY(ReadInto(config, {"linear_key_head_dim"}, kMaxHeadDim, &state.key_head_dim));
  HAYPILE_TRY(ReadInto(config, {"linear_value_head_dim"}, kMaxHeadDim, &state.value_head_dim));
  if (state.value_heads % state.key_heads != 0) {
    return config.Malformed("fields " + config.Quoted("linear_num_value_heads") + " and " +
                            config.Quoted("linear_num_key_heads") + " are " + std::to_string(state.value_heads) +
                            " and " + std::to_string(state.key_heads) +
                            "; expected value heads that divide evenly among key heads");
  }
  return state;
}

// The inner width: a field of its own, or expand * hidden_size.
Result<int64_t> InnerWidth(const ConfigObject& config, std::string_view width, std::string_view expand,
                           int64_t hidden) {
  if (!width.empty() && config.Has(width)) {
    // Configs that give the width keep the factor beside it, which then says nothing.
    if (config.Has(expand)) HAYPILE_TRY(config.Int(expand, 1, 64));
    return config.Int(width, 1, kMaxWidth);
  }
  HAYPILE_TRY_ASSIGN(const int64_t factor, config.Int(expand, 1, 64));
  if (hidden == 0) return config.Malformed("field " + config.Quoted("hidden_size") + " is missing");
  return factor * hidden;
}

Result<StateShape> ReadMamba1(const ConfigObject& config, int64_t hidden, bool prefixed) {
  StateShape state{.kind = StateKind::kMamba1};
  HAYPILE_TRY(ReadInto(config, {prefixed ? "mamba_d_conv" : "conv_kernel"}, kMaxKernel, &state.conv_kernel));
  HAYPILE_TRY(ReadInto(config, {prefixed ? "mamba_d_state" : "state_size"}, kMaxHeadDim, &state.state_size));
  HAYPILE_TRY_ASSIGN(state.intermediate, InnerWidth(config, prefixed ? "" : "intermediate_size",
                                                    prefixed ? "mamba_expand" : "expand", hidden));
  return state;
}

// The field names of one family's Mamba 2 layers; empty: no such field.
struct Mamba2Names {
  std::string_view heads, head_dim, state_size, groups, conv, chunk, expand, width;
};

Result<StateShape> ReadMamba2(const ConfigObject& config, int64_t hidden, const Mamba2Names& names) {
  StateShape state{.kind = StateKind::kMamba2};
  HAYPILE_TRY(ReadInto(config, {names.conv}, kMaxKernel, &state.conv_kernel));
  HAYPILE_TRY(ReadInto(config, {names.state_size}, kMaxHeadDim, &state.state_size));
  HAYPILE_TRY(ReadInto(config, {names.groups}, kMaxHeads, &state.groups));
  HAYPILE_TRY(ReadInto(config, {names.heads}, kMaxHeads, &state.value_heads));
  HAYPILE_TRY(ReadChunk(config, names.chunk, &state));
  const Json* head_dim = config.Find(names.head_dim);
  const bool automatic = head_dim == nullptr || (head_dim->is_string() && *head_dim == "auto");
  if (names.expand.empty() && names.width.empty()) {  // heads * head_dim is the width
    HAYPILE_TRY(ReadInto(config, {names.head_dim}, kMaxHeadDim, &state.value_head_dim));
    state.intermediate = int64_t{state.value_heads} * state.value_head_dim;
    return state;
  }
  HAYPILE_TRY_ASSIGN(state.intermediate, InnerWidth(config, names.width, names.expand, hidden));
  if (!automatic) {
    HAYPILE_TRY(ReadInto(config, {names.head_dim}, kMaxHeadDim, &state.value_head_dim));
  } else {
    state.value_head_dim = static_cast<int>(state.intermediate / state.value_heads);
  }
  if (int64_t{state.value_heads} * state.value_head_dim != state.intermediate) {
    return config.Malformed("field " + config.Quoted(names.heads) + " is " + std::to_string(state.value_heads) +
                            " heads of " + std::to_string(state.value_head_dim) + "; expected heads that make up the " +
                            "inner width " + std::to_string(state.intermediate));
  }
  return state;
}

// A model of Mamba 2 alone. Where the config has intermediate_size, engines give the convolution that width, whatever
// heads and factor say; in public configs they agree.
Result<StateShape> ReadPlainMamba2(const ConfigObject& config, int64_t hidden) {
  HAYPILE_TRY_ASSIGN(StateShape state, ReadMamba2(config, hidden,
                                                  {"num_heads", "head_dim", "state_size", "n_groups", "conv_kernel",
                                                   "chunk_size", "expand", ""}));
  HAYPILE_TRY_ASSIGN(state.intermediate, config.Int("intermediate_size", 1, kMaxWidth, state.intermediate));
  return state;
}

Result<StateShape> ReadKda(const ConfigObject& config) {
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> linear, config.Object("linear_attn_config"));
  if (!linear) return config.Malformed("field " + config.Quoted("linear_attn_config") + " is missing");
  StateShape state{.kind = StateKind::kKda};
  HAYPILE_TRY(ReadInto(*linear, {"short_conv_kernel_size"}, kMaxKernel, &state.conv_kernel));
  HAYPILE_TRY(ReadInto(*linear, {"num_heads"}, kMaxHeads, &state.key_heads));
  HAYPILE_TRY(ReadInto(*linear, {"head_dim"}, kMaxHeadDim, &state.key_head_dim));
  state.value_heads = state.key_heads;
  state.value_head_dim = state.key_head_dim;
  return state;
}

Result<StateShape> ReadShortConv(const ConfigObject& config, int64_t hidden) {
  StateShape state{.kind = StateKind::kShortConv};
  HAYPILE_TRY(ReadInto(config, {"conv_L_cache"}, kMaxKernel, &state.conv_kernel));
  (void)config.Find("conv_dim_out");
  HAYPILE_TRY_ASSIGN(state.intermediate, config.Int("conv_dim", 1, kMaxWidth, hidden));
  if (state.intermediate == 0) return config.Malformed("field " + config.Quoted("hidden_size") + " is missing");
  return state;
}

}  // namespace

Result<StateShape> ReadStateShape(const ConfigObject& config, const ModelShape& shape) {
  const int64_t hidden = shape.hidden;
  switch (shape.family.state) {
    case StateFields::kNone:
      break;
    case StateFields::kDeltaNet:
      return ReadDeltaNet(config);
    case StateFields::kMamba1:
      return ReadMamba1(config, hidden, false);
    case StateFields::kMamba1Prefixed:
      return ReadMamba1(config, hidden, true);
    case StateFields::kMamba2:
      return ReadPlainMamba2(config, hidden);
    case StateFields::kMamba2Prefixed:
      return ReadMamba2(config, hidden,
                        {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv",
                         "mamba_chunk_size", "mamba_expand", ""});
    case StateFields::kMamba2Nemotron:
      (void)config.FirstOf({"expand", "time_step_rank"});
      return ReadMamba2(
          config, hidden,
          {"mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel", "chunk_size", "", ""});
    case StateFields::kMamba2Zamba:
      return ReadMamba2(config, hidden,
                        {"n_mamba_heads", "mamba_headdim", "mamba_d_state", "mamba_ngroups", "mamba_d_conv",
                         "chunk_size", "mamba_expand", ""});
    case StateFields::kMamba2Falcon:
      return ReadMamba2(config, hidden,
                        {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv",
                         "mamba_chunk_size", "mamba_expand", "mamba_d_ssm"});
    case StateFields::kKda:
      return ReadKda(config);
    case StateFields::kShortConv:
      return ReadShortConv(config, hidden);
  }
  return config.Unsupported("architecture '" + shape.model_type + "' has state layers that are not understood");
}

}  // namespace haypile
