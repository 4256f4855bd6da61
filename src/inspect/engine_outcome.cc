#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>

#include "inspect/report.h"

namespace haypile {
namespace {

uint32_t MethodTrait(const QuantizationDeclaration& declaration) {
  const std::string& method = declaration.method;
  if (!declaration.in_config && !declaration.in_hf_config) return kNoConfig;
  if (method == "compressed-tensors" || method == "compressed_tensors") return kCompressedTensors;
  if (method.starts_with("modelopt")) return kModelOpt;
  if (method == "fp8") return kFp8Method;
  if (method == "quark") return kQuark;
  return kOtherMethod;
}

// Layers are named "<...>layers.N" in the models whose loaders rename the old scale.
bool OtherLayerNames(const FamilySummary& family) { return !family.prefix.ends_with("layers"); }

bool HoldsAnyOf(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&text](std::string_view word) { return text.find(word) != std::string::npos; });
}

// vLLM maps a scale by the module that it hangs on: elsewhere ".k_scale" becomes a parameter that no module owns.
bool ModuleNotMapped(const FamilySummary& family) {
  switch (family.family) {
    case KvScaleFamily::kProjection:
      return !HoldsAnyOf(family.example,
                         {".self_attn.k_proj.", ".self_attn.v_proj.", ".mixer.k_proj.", ".mixer.v_proj."});
    case KvScaleFamily::kFused:
      return !HoldsAnyOf(family.example, {".self_attn.qkv_proj.", ".self_attn.qkqkv_proj."});
    case KvScaleFamily::kCacheModule:
      return !HoldsAnyOf(family.example, {".self_attn.k_cache.", ".self_attn.v_cache."});
    default:
      return false;
  }
}

bool HasBadShape(const FamilySummary& family, const std::vector<KvLayerNeed>& needs) {
  if (family.granularity == ScaleGranularity::kTensor) return false;
  if (family.granularity == ScaleGranularity::kOther) return true;
  return std::any_of(needs.begin(), needs.end(), [&family](const KvLayerNeed& need) {
    const auto heads = family.heads_by_layer.find(need.layer);
    const bool known = need.kv_heads > 0 && heads != family.heads_by_layer.end();
    return known && heads->second != 1 && heads->second != need.kv_heads;
  });
}

uint32_t GeometryTraits(const InspectReport& report) {
  uint32_t traits = 0;
  const bool k_is_v = std::any_of(report.kv_layers.begin(), report.kv_layers.end(),
                                  [](const KvLayerNeed& need) { return need.v_is_k; });
  if (k_is_v) traits |= kKEqualsV;
  if (!report.geometry) return traits;
  const auto& layers = report.geometry->layers;
  const bool shared =
      std::any_of(layers.begin(), layers.end(), [](const LayerGeometry& layer) { return layer.kv_shared_with >= 0; });
  if (shared) traits |= kSharedLayers;
  const bool latent = std::any_of(layers.begin(), layers.end(),
                                  [](const LayerGeometry& layer) { return layer.cache == CacheKind::kMla; });
  return latent ? traits | kLatent : traits;
}

uint32_t TraitsOf(const InspectReport& report, const FamilySummary* family) {
  const QuantizationDeclaration& declaration = report.declaration;
  uint32_t traits = MethodTrait(declaration);
  if (!declaration.KvDtype().empty()) traits |= kSchemeDeclared;
  if (!declaration.scheme_faults.empty()) traits |= kSchemeUnsupported;
  if (declaration.strategy == "attn_head") traits |= kSchemePerHead;
  if (declaration.KvDtype().starts_with("nvfp4")) traits |= kNvfp4Cache;
  if (declaration.kv_only) traits |= kKvOnly;
  traits |= GeometryTraits(report);
  if ((traits & kNoConfig) != 0 || declaration.kv_only) traits |= kPlainWeights;
  if (family == nullptr) return traits | kNoScales;
  traits |= kHasScales;
  if (report.convention == "amax/448") traits |= kBy448;
  if (report.convention == "amax/2688") traits |= kBy2688;
  if (ModuleNotMapped(*family)) traits |= kModuleNotMapped;
  if (HasBadShape(*family, report.kv_layers)) traits |= kBadShape;
  if (family->granularity != ScaleGranularity::kTensor) traits |= kPerHead;
  if (OtherLayerNames(*family)) traits |= kOtherLayerNames;
  const size_t bad = family->k.zeros + family->k.negatives + family->k.not_finite + family->v.zeros +
                     family->v.negatives + family->v.not_finite + family->unread;
  return bad > 0 ? traits | kBadValues : traits;
}

bool ArchitectureMatches(std::string_view words, const std::string& architecture) {
  if (words.empty()) return true;
  while (!words.empty()) {
    const size_t space = words.find(' ');
    if (architecture.find(words.substr(0, space)) != std::string::npos) return true;
    words.remove_prefix(space == std::string_view::npos ? words.size() : space + 1);
  }
  return false;
}

void AddOutcomes(const InspectReport& report, const FamilySummary* family, std::vector<EngineOutcome>* out) {
  const uint32_t traits = TraitsOf(report, family);
  std::set<std::pair<std::string_view, std::string_view>> settled;
  for (const EngineRule& rule : EngineRules()) {
    if (rule.families != 0 && (family == nullptr || (rule.families & FamilyBit(family->family)) == 0)) continue;
    if ((traits & rule.all_of) != rule.all_of || (traits & rule.none_of) != 0) continue;
    if (!ArchitectureMatches(rule.architectures, report.architecture)) continue;
    if (!settled.insert({rule.engine, rule.versions}).second) continue;
    out->push_back({family == nullptr ? "" : std::string(KvScaleFamilyName(family->family)), &rule});
  }
}

}  // namespace

std::vector<EngineOutcome> OutcomesOf(const InspectReport& report) {
  std::vector<EngineOutcome> outcomes;
  for (const FamilySummary& family : report.scales) {
    const bool scales = family.kind == KvScaleKind::kScale || family.kind == KvScaleKind::kAmax;
    // Names without a layer's number are no engine's.
    const auto placed = [](const std::vector<int>& layers) { return !layers.empty() && layers.back() >= 0; };
    if (scales && (placed(family.k_layers) || placed(family.v_layers))) AddOutcomes(report, &family, &outcomes);
  }
  if (outcomes.empty()) AddOutcomes(report, nullptr, &outcomes);
  return outcomes;
}

}  // namespace haypile
