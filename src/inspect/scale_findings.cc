#include "inspect/scale_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

namespace haypile {
namespace {

// A cache of FP8 E4M3 reaches 448: the range that a scale of 1.0 covers.
constexpr double kFp8Largest = 448.0;
// ModelOpt warns of FP8 scales above it: a range of half of what 1.0 covers.
constexpr double kLargeScale = 0.5;
// A range of 7168, which no known model's K or V has: rather an amax that was not divided, or a reciprocal.
constexpr double kImplausibleScale = 16.0;
// A range under 2^-11: the layer's K or V was zero, or next to it.
constexpr double kVanishingScale = 0x1p-20;

std::string Prefix(const FamilySummary& family) { return std::string(KvScaleFamilyName(family.family)) + ": "; }

// The layers of one side that hold a value for which `test` is true, and how many values that are.
template <typename Test>
std::vector<int> LayersWith(const ScalesByLayer& values, Test test, size_t* count) {
  std::vector<int> layers;
  for (const auto& [layer, of_layer] : values) {
    const auto found = static_cast<size_t>(std::count_if(of_layer.begin(), of_layer.end(), test));
    *count += found;
    if (found > 0) layers.push_back(layer);
  }
  return layers;
}

struct ValueRule {
  bool (*test)(double);
  FindingLevel level;
  const char* code;
  const char* what;
  const char* advice;
};

const ValueRule kValueRules[] = {
    {[](double v) { return v == 0; }, FindingLevel::kError, "kv_scale_zero",
     "zero: the layer was never observed while calibrating",
     "do not serve with a quantized cache before these layers are calibrated"},
    {[](double v) { return v < 0; }, FindingLevel::kError, "kv_scale_negative",
     "negative: engines take them for 'not there' and run at 1.0", "calibrate anew"},
    {[](double v) { return !std::isfinite(v); }, FindingLevel::kError, "kv_scale_not_finite", "NaN or infinite",
     "calibrate anew"},
    {[](double v) { return v > 0 && v < static_cast<double>(std::numeric_limits<float>::min()); }, FindingLevel::kError,
     "kv_scale_denormal", "denormal in float32: an engine that divides by them gets infinity", "calibrate anew"},
    {[](double v) { return v >= static_cast<double>(std::numeric_limits<float>::min()) && v < kVanishingScale; },
     FindingLevel::kWarning, "kv_scale_epsilon",
     "next to zero (a range under 0.0005): an exporter's epsilon, written where a layer's range was zero",
     "look whether these layers saw the calibration text; until then serve them at 16 bits or at 1.0"},
};

void AddBadValues(const char* side, const ScalesByLayer& values, size_t all, const FamilySummary& family,
                  CheckpointFindings* out) {
  for (const ValueRule& rule : kValueRules) {
    size_t count = 0;
    std::vector<int> layers = LayersWith(values, rule.test, &count);
    if (count == 0) continue;
    out->push_back({rule.level, rule.code,
                    fmt::format("{}{}: {} of {} values are {} (layers {})", Prefix(family), side, count, all, rule.what,
                                RangesText(layers)),
                    rule.advice, layers});
  }
}

// The epsilon that llm-compressor writes for a range of zero, in the dtype of the scales.
std::optional<double> EpsilonOf(const FamilySummary& family) {
  if (family.dtypes.size() != 1) return std::nullopt;
  if (family.dtypes.front() == "BF16") return 0x1p-7;
  if (family.dtypes.front() == "F16") return 0x1p-10;
  return std::nullopt;  // float32's is next to zero, and found as such
}

void AddEpsilons(const char* side, const ScalesByLayer& values, size_t distinct, const FamilySummary& family,
                 CheckpointFindings* out) {
  const std::optional<double> epsilon = EpsilonOf(family);
  if (!epsilon || distinct < 2) return;  // of one value alone, the finding of constants speaks
  size_t count = 0;
  std::vector<int> layers = LayersWith(
      values, [&](double v) { return v == *epsilon; }, &count);
  if (count == 0) return;
  out->push_back({FindingLevel::kWarning, "kv_scale_epsilon",
                  fmt::format("{}{}: {} values are exactly {}, the epsilon of {} (layers {}): llm-compressor writes it "
                              "where a layer's range was zero; else the range was {:.4g}",
                              Prefix(family), side, count, *epsilon, family.dtypes.front(), RangesText(layers),
                              *epsilon * kFp8Largest),
                  "look whether these layers saw the calibration text", layers});
}

// Scales of FP8 (or of a cache that is not named) that are large: much is lost where they are dropped, or they are
// none.
void AddLarge(const char* side, const ScalesByLayer& values, const FamilySummary& family,
              const QuantizationDeclaration& declaration, CheckpointFindings* out) {
  const std::string dtype = declaration.KvDtype();
  if (dtype.starts_with("nvfp4") || dtype.starts_with("int")) return;
  size_t count = 0;
  std::vector<int> layers = LayersWith(
      values, [](double v) { return std::isfinite(v) && v > kImplausibleScale; }, &count);
  if (count > 0) {
    out->push_back({FindingLevel::kWarning, "kv_scale_implausible",
                    fmt::format("{}{}: {} values are above {} (layers {}): ranges above {:.0f}, which K and V hardly "
                                "have; an amax that was not divided by 448, or a reciprocal (448 / amax)?",
                                Prefix(family), side, count, kImplausibleScale, RangesText(layers),
                                kImplausibleScale * kFp8Largest),
                    "compare with ranges that you measure (haypile calibrate)", layers});
    return;
  }
  layers = LayersWith(
      values, [](double v) { return std::isfinite(v) && v > kLargeScale && v != 1.0; }, &count);
  if (count == 0) return;
  out->push_back(
      {FindingLevel::kNote, "kv_scale_large",
       fmt::format("{}{}: {} values are above {} (layers {}): ranges above {:.0f}, near or beyond the 448 that "
                   "1.0 covers",
                   Prefix(family), side, count, kLargeScale, RangesText(layers), kLargeScale * kFp8Largest),
       "do not serve this checkpoint with an engine that drops the scales", layers});
}

bool AllOne(const ScaleStatistics& values) { return values.values > 0 && values.ones == values.values; }

bool Clamped(const ScaleStatistics& values) {
  return values.ones > 0 && values.ones < values.values && values.smallest == 1.0;
}

void AddAllOne(const FamilySummary& family, const QuantizationDeclaration& declaration, CheckpointFindings* out) {
  const bool modelopt = declaration.producer == "modelopt" || declaration.method.starts_with("modelopt");
  out->push_back(
      {FindingLevel::kWarning, "kv_scales_all_one",
       Prefix(family) + "all values are exactly 1.0: constant \"cast\" scales that hold nothing of the model" +
           (modelopt ? ", or true ones that an exporter clamped to at least 1.0 (ModelOpt before 0.43, and its "
                       "Megatron export)"
                     : ""),
       "the cache behaves as without scales: compare before you trust it, or calibrate"});
}

void AddConstants(const FamilySummary& family, const QuantizationDeclaration& declaration, CheckpointFindings* out) {
  const ScaleStatistics &k = family.k, &v = family.v;
  if (k.values + v.values < 2) return;
  if ((k.values == 0 || AllOne(k)) && (v.values == 0 || AllOne(v))) {
    AddAllOne(family, declaration, out);
    return;
  }
  if (Clamped(k) || Clamped(v)) {
    out->push_back({FindingLevel::kWarning, "kv_scales_clamped",
                    fmt::format("{}no value {}is below 1.0 and {} of {} are exactly 1.0: an exporter clamped them to "
                                "max(amax / 448, 1.0)",
                                Prefix(family),
                                Clamped(k) == Clamped(v) ? ""
                                : Clamped(k)             ? "of K "
                                                         : "of V ",
                                (Clamped(k) ? k.ones : 0) + (Clamped(v) ? v.ones : 0),
                                (Clamped(k) ? k.values : 0) + (Clamped(v) ? v.values : 0)),
                    "layers at 1.0 use a part of the range only; calibrate them anew"});
    return;
  }
  const auto constant = [](const ScaleStatistics& side, size_t layers, size_t enough) {
    return side.distinct == 1 && side.zeros == 0 && side.not_finite == 0 && layers >= enough;
  };
  const auto add = [&](const std::string& which) {
    out->push_back({FindingLevel::kWarning, "kv_scales_constant",
                    Prefix(family) + which + ": a constant, not a calibration", "calibrate by layer"});
  };
  const bool same = v.values == 0 || k.values == 0 || k.smallest == v.smallest;
  const bool k_constant = constant(k, family.k_layers.size(), 2), v_constant = constant(v, family.v_layers.size(), 2);
  if ((k_constant || k.values == 0) && (v_constant || v.values == 0) && same) {
    add(fmt::format("all values are equal ({:.6g})", k.values > 0 ? k.smallest : v.smallest));
    return;
  }
  // Two layers may well round to one value; three hardly.
  const auto text = [](const char* side, double value) {
    return fmt::format("{}'s values are all equal ({:.6g}{})", side, value,
                       value == 1.0 ? ", as exporters write that clamp scales to at least 1.0" : "");
  };
  if (constant(k, family.k_layers.size(), 3)) add(text("K", k.smallest));
  if (constant(v, family.v_layers.size(), 3)) add(text("V", v.smallest));
}

// K and V have ranges of their own; alike in every layer, one was written for both.
void AddAlike(const FamilySummary& family, CheckpointFindings* out) {
  const bool shared = family.family == KvScaleFamily::kShared || family.family == KvScaleFamily::kTrtLlm;
  if (shared || family.k_values.size() < 2 || family.k.distinct < 2 || family.k_values != family.v_values) return;
  out->push_back(
      {FindingLevel::kWarning, "kv_scales_k_equals_v",
       fmt::format("{}K and V have the same value in each of {} layers: one scale for both (the larger range), "
                   "as SGLang's JSON and the old kv_scale have it",
                   Prefix(family), family.k_values.size()),
       "V is often the smaller: calibrate K and V apart"});
}

void AddHeads(const FamilySummary& family, const std::vector<KvLayerNeed>& needs, CheckpointFindings* out) {
  std::vector<int> wrong;
  const KvLayerNeed* first = nullptr;
  for (const KvLayerNeed& need : needs) {
    const auto heads = family.heads_by_layer.find(need.layer);
    if (need.kv_heads == 0 || heads == family.heads_by_layer.end() || heads->second == need.kv_heads) continue;
    if (first == nullptr) first = &need;
    wrong.push_back(need.layer);
  }
  if (first != nullptr) {
    out->push_back({FindingLevel::kError, "kv_scale_heads_mismatch",
                    fmt::format("{}scales have {} values, but the model has {} KV heads (layers {})", Prefix(family),
                                family.heads_by_layer.at(first->layer), first->kv_heads, RangesText(wrong)),
                    "refused: these scales belong to another model or to another layout", wrong});
    return;
  }
  out->push_back({FindingLevel::kNote, "kv_scales_per_head",
                  Prefix(family) +
                      "per head: an engine with one value a layer must refuse them; one that slices blindly takes one "
                      "head's value for all, another on each rank",
                  ""});
}

void AddGranularity(const FamilySummary& family, const std::vector<KvLayerNeed>& needs, CheckpointFindings* out) {
  if (family.granularity == ScaleGranularity::kHead) AddHeads(family, needs, out);
  const bool mixed = family.granularity == ScaleGranularity::kMixed;
  if (!mixed && family.granularity != ScaleGranularity::kOther) return;
  std::vector<int> odd(family.single_layers.begin(), family.single_layers.end());
  if (!mixed) odd.clear();
  for (const auto& [layer, heads] : family.heads_by_layer) {
    if (!mixed && heads < 0) odd.push_back(layer);
  }
  out->push_back(
      {FindingLevel::kError, "kv_scale_shape",
       Prefix(family) + (mixed ? "some scales are per tensor (layers " + RangesText(odd) + ") and some per head"
                               : "the shape is neither one value nor one a head (layers " + RangesText(odd) + ")"),
       "no engine loads this rightly; write one value a layer", odd});
}

void AddMissing(const char* side, const std::vector<int>& missing, size_t keepers, const std::string& family,
                CheckpointFindings* out) {
  if (missing.empty()) return;
  out->push_back({FindingLevel::kWarning, "kv_scales_missing_layers",
                  fmt::format("{}: {} has no scale in {} of {} layers that keep it (layers {})", family, side,
                              missing.size(), keepers, RangesText(missing)),
                  "engines run these layers at 1.0, or take the other side's scale; calibrate them", missing});
}

std::vector<const FamilySummary*> ScalesAmong(const std::vector<FamilySummary>& families) {
  std::vector<const FamilySummary*> result;
  for (const FamilySummary& family : families) {
    const bool range = family.kind == KvScaleKind::kScale || family.kind == KvScaleKind::kAmax;
    if (range) result.push_back(&family);
  }
  return result;
}

void AddTwoFamilies(const std::vector<const FamilySummary*>& families, CheckpointFindings* out) {
  for (size_t i = 0; i < families.size(); ++i) {
    for (size_t j = i + 1; j < families.size(); ++j) {
      const FamilySummary &a = *families[i], &b = *families[j];
      if (a.kind != b.kind) continue;
      std::vector<int> both;
      std::set_intersection(a.k_layers.begin(), a.k_layers.end(), b.k_layers.begin(), b.k_layers.end(),
                            std::back_inserter(both));
      if (both.empty()) continue;
      const bool equal = a.k_values == b.k_values && a.v_values == b.v_values;
      out->push_back(
          {equal ? FindingLevel::kNote : FindingLevel::kWarning, "kv_scales_twice",
           fmt::format("layers {} have scales under two names, {} and {}, {}", RangesText(both),
                       KvScaleFamilyName(a.family), KvScaleFamilyName(b.family),
                       equal ? "of equal values"
                             : "of different values: which one an engine takes depends on the order of loading"),
           equal ? "" : "keep one of them", both});
    }
  }
}

void AddUnplaced(const std::vector<const FamilySummary*>& families, CheckpointFindings* out) {
  for (const FamilySummary* family : families) {
    if (!family->heads_by_layer.contains(-1)) continue;
    out->push_back({FindingLevel::kWarning, "kv_scale_without_layer",
                    Prefix(*family) + "names without a layer's number, such as '" + family->example +
                        "': no engine gives them to a layer",
                    "name the layer, as in model.layers.0.self_attn.k_scale"});
  }
}

void AddStray(const std::vector<const FamilySummary*>& families, const std::vector<KvLayerNeed>& needs,
              const ModelGeometry& geometry, const std::string& names, CheckpointFindings* out) {
  std::set<int> known, cacheless;
  for (const LayerGeometry& layer : geometry.layers) {
    known.insert(layer.index);
    if (layer.cache != CacheKind::kCrossAttention) cacheless.insert(layer.index);
  }
  for (const LayerGeometry& layer : geometry.mtp_layers) known.insert(layer.index);
  for (const KvLayerNeed& need : needs) cacheless.erase(need.layer);
  std::set<int> without, beyond;
  for (const FamilySummary* family : families) {
    for (const std::vector<int>* layers : {&family->k_layers, &family->v_layers}) {
      for (const int layer : *layers) {
        if (cacheless.contains(layer)) without.insert(layer);
        if (!known.contains(layer) && layer >= 0) beyond.insert(layer);
      }
    }
  }
  if (!without.empty()) {
    const std::vector<int> layers(without.begin(), without.end());
    out->push_back({FindingLevel::kNote, "kv_scales_of_layers_without_cache",
                    names + ": scales for layers " + RangesText(layers) +
                        ", which keep no KV cache of their own (recurrent, or reading another layer's)",
                    "", layers});
  }
  if (!beyond.empty()) {
    const std::vector<int> layers(beyond.begin(), beyond.end());
    out->push_back({FindingLevel::kWarning, "kv_scales_beyond_model",
                    names + ": scales for layers " + RangesText(layers) +
                        ", which the model does not have: another model's scales?",
                    "compare num_hidden_layers of config.json with the model that was calibrated", layers});
  }
}

}  // namespace

MissingScales MissingOf(const std::vector<FamilySummary>& families, const std::vector<KvLayerNeed>& needs) {
  std::set<int> k, v;
  for (const FamilySummary* family : ScalesAmong(families)) {
    k.insert(family->k_layers.begin(), family->k_layers.end());
    v.insert(family->v_layers.begin(), family->v_layers.end());
  }
  MissingScales missing;
  for (const KvLayerNeed& need : needs) {
    if (!k.contains(need.layer)) missing.k.push_back(need.layer);
    if (need.v && !v.contains(need.layer)) missing.v.push_back(need.layer);
  }
  return missing;
}

CheckpointFindings CoverageFindings(const std::vector<FamilySummary>& families, const std::vector<KvLayerNeed>& needs,
                                    const ModelGeometry* geometry) {
  CheckpointFindings findings;
  const std::vector<const FamilySummary*> scales = ScalesAmong(families);
  if (scales.empty()) return findings;
  const MissingScales missing = MissingOf(families, needs);
  const auto keep_v =
      static_cast<size_t>(std::count_if(needs.begin(), needs.end(), [](const KvLayerNeed& need) { return need.v; }));
  std::string names;
  for (const FamilySummary* family : scales) {
    names += (names.empty() ? "" : ", ") + std::string(KvScaleFamilyName(family->family));
  }
  AddMissing("K", missing.k, needs.size(), names, &findings);
  AddMissing("V", missing.v, keep_v, names, &findings);
  AddTwoFamilies(scales, &findings);
  AddUnplaced(scales, &findings);
  if (geometry != nullptr) AddStray(scales, needs, *geometry, names, &findings);
  return findings;
}

CheckpointFindings ScaleFindings(const FamilySummary& family, const std::vector<KvLayerNeed>& needs,
                                 const QuantizationDeclaration& declaration) {
  CheckpointFindings findings;
  if (family.kind == KvScaleKind::kBias) {
    findings.push_back(
        {FindingLevel::kWarning, "kv_bias",
         Prefix(family) +
             "biases of an affine KV format, whose names resemble those of projection biases; no engine is "
             "known to apply them, and without them the scales are for ranges that K and V do not have",
         "export without an affine KV format"});
    return findings;
  }
  if (family.kind == KvScaleKind::kZeroPoint) {
    findings.push_back({FindingLevel::kWarning, "kv_zero_point", Prefix(family) + "zero points: engines ignore them",
                        "quantize symmetrically"});
    return findings;
  }
  const bool scales = family.kind == KvScaleKind::kScale;
  for (const auto& [side, values, statistics] :
       {std::tuple("K", &family.k_values, &family.k), std::tuple("V", &family.v_values, &family.v)}) {
    // One value for K and V: told once.
    if (side[0] == 'V' && (family.family == KvScaleFamily::kShared || family.family == KvScaleFamily::kTrtLlm))
      continue;
    AddBadValues(side, *values, statistics->values, family, &findings);
    if (!scales) continue;
    AddEpsilons(side, *values, statistics->distinct, family, &findings);
    AddLarge(side, *values, family, declaration, &findings);
  }
  if (scales) AddConstants(family, declaration, &findings);
  AddAlike(family, &findings);
  AddGranularity(family, needs, &findings);
  if (family.unread > 0) {
    const std::vector<int> unread(family.unread_layers.begin(), family.unread_layers.end());
    findings.push_back({FindingLevel::kError, "kv_scale_unreadable",
                        fmt::format("{}{} tensors have a dtype or a size that no scale has (layers {})", Prefix(family),
                                    family.unread, RangesText(unread)),
                        "export the scales as float32 or in the model's dtype", unread});
  }
  if (family.kind == KvScaleKind::kAmax) {
    findings.push_back({FindingLevel::kWarning, "kv_amax_not_scale",
                        Prefix(family) + "ranges (amax), not scales: a calibration state that was not exported",
                        "export it: scale = amax / 448 for FP8"});
  }
  return findings;
}

}  // namespace haypile
