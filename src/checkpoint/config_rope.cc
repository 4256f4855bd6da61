#include "checkpoint/config_rope.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/json.h"
#include "checkpoint/weight_type.h"

namespace haypile {
namespace {

constexpr double kLargestFactor = 1e6;

double DefaultTheta(ModelFamily family) { return family == ModelFamily::kGemma3 ? 1'000'000.0 : 10'000.0; }

// YaRN's attention factor for the long context, times the weight `mscale`.
double YarnMagnitude(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

Status ReadYarn(const ConfigFields& scaling, int64_t max_positions, RopeSpec* rope) {
  rope->kind = RopeKind::kYarn;
  HAYPILE_TRY_ASSIGN(rope->original_max_position, scaling.Int("original_max_position_embeddings", max_positions));
  HAYPILE_TRY_ASSIGN(rope->beta_fast, scaling.Number("beta_fast", 32.0));
  HAYPILE_TRY_ASSIGN(rope->beta_slow, scaling.Number("beta_slow", 1.0));
  HAYPILE_TRY_ASSIGN(const bool truncate, scaling.Bool("truncate", true));
  if (!truncate) return scaling.Unsupported(scaling.Quoted("truncate") + ": YaRN without truncation is not supported");
  if (scaling.Has("attention_factor")) {
    HAYPILE_TRY_ASSIGN(rope->attention_factor, scaling.Number("attention_factor"));
    return {};
  }
  HAYPILE_TRY_ASSIGN(const double mscale, scaling.Number("mscale", 0.0));
  HAYPILE_TRY_ASSIGN(const double mscale_all_dim, scaling.Number("mscale_all_dim", 0.0));
  if (mscale != 0 && mscale_all_dim != 0) {
    rope->attention_factor = YarnMagnitude(rope->factor, mscale) / YarnMagnitude(rope->factor, mscale_all_dim);
  }
  return {};
}

Status ReadLlama3(const ConfigFields& scaling, RopeSpec* rope) {
  rope->kind = RopeKind::kLlama3;
  HAYPILE_TRY_ASSIGN(rope->low_freq_factor, scaling.Number("low_freq_factor"));
  HAYPILE_TRY_ASSIGN(rope->high_freq_factor, scaling.Number("high_freq_factor"));
  HAYPILE_TRY_ASSIGN(rope->original_max_position, scaling.Int("original_max_position_embeddings"));
  return {};
}

// `scaling` is rope_scaling or (an object of) rope_parameters.
Status ReadScaling(const ConfigFields& scaling, int64_t max_positions, RopeSpec* rope) {
  HAYPILE_TRY_ASSIGN(const std::string old_name, scaling.String("type", "default"));
  HAYPILE_TRY_ASSIGN(const std::string type, scaling.String("rope_type", old_name));
  HAYPILE_TRY_ASSIGN(rope->theta, scaling.Number("rope_theta", rope->theta));
  if (scaling.Has("mrope_section")) {
    return scaling.Unsupported(scaling.Quoted("mrope_section") + ": multimodal RoPE is not supported");
  }
  HAYPILE_TRY_ASSIGN(const double partial, scaling.Number("partial_rotary_factor", 1.0));
  if (partial != 1.0) {
    return scaling.Unsupported(scaling.Quoted("partial_rotary_factor") +
                               ": RoPE over a part of the head is not supported");
  }
  if (type == "default") return {};
  if (type != "linear" && type != "llama3" && type != "yarn") {
    return scaling.Unsupported("RoPE type " + QuotedName(type) +
                               " is not supported; default, linear, llama3 and yarn are");
  }
  HAYPILE_TRY_ASSIGN(rope->factor, scaling.Number("factor"));
  if (!(rope->factor >= 1.0 && rope->factor <= kLargestFactor)) {
    return scaling.Malformed("field " + scaling.Quoted("factor") + " is not a number from 1 to 1000000");
  }
  if (type == "yarn") return ReadYarn(scaling, max_positions, rope);
  if (type == "llama3") return ReadLlama3(scaling, rope);
  rope->kind = RopeKind::kLinear;
  return {};
}

Status ReadRopeParameters(const ConfigFields& fields, ModelSpec* spec) {
  HAYPILE_TRY_ASSIGN(const ConfigFields parameters, fields.Nested("rope_parameters"));
  if (!parameters.Has("full_attention")) return ReadScaling(parameters, spec->max_positions, &spec->rope);
  HAYPILE_TRY_ASSIGN(const ConfigFields full, parameters.Nested("full_attention"));
  HAYPILE_TRY(ReadScaling(full, spec->max_positions, &spec->rope));
  if (!parameters.Has("sliding_attention")) return {};
  if (spec->family != ModelFamily::kGemma3) {
    return fields.Unsupported(parameters.Quoted("sliding_attention") + ": RoPE that differs between layers is not " +
                              "supported in architecture " + QuotedName(spec->architecture));
  }
  HAYPILE_TRY_ASSIGN(const ConfigFields sliding, parameters.Nested("sliding_attention"));
  return ReadScaling(sliding, spec->max_positions, &spec->local_rope);
}

}  // namespace

Status ReadConfigRope(const ConfigFields& fields, ModelSpec* spec) {
  HAYPILE_TRY_ASSIGN(spec->rope.theta, fields.Number("rope_theta", DefaultTheta(spec->family)));
  HAYPILE_TRY_ASSIGN(spec->local_rope.theta, fields.Number("rope_local_base_freq", 10'000.0));
  if (fields.Has("rope_parameters")) {
    HAYPILE_TRY(ReadRopeParameters(fields, spec));
  } else if (fields.Has("rope_scaling")) {
    HAYPILE_TRY_ASSIGN(const ConfigFields scaling, fields.Nested("rope_scaling"));
    HAYPILE_TRY(ReadScaling(scaling, spec->max_positions, &spec->rope));
  }
  if (spec->rope.kind == RopeKind::kYarn) {
    const double stretched = static_cast<double>(spec->rope.original_max_position) * spec->rope.factor;
    spec->max_positions = std::max(spec->max_positions, static_cast<int64_t>(std::min(stretched, 0x1p50)));
  }
  return {};
}

}  // namespace haypile
