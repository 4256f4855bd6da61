#include "inspect/scale_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/weight_type.h"

namespace haypile {
namespace {

ScaleStatistics StatisticsOf(std::vector<double> values) {
  ScaleStatistics result{.values = values.size()};
  std::erase_if(values, [&result](double value) {
    result.not_finite += !std::isfinite(value);
    return !std::isfinite(value);
  });
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  result.smallest = values.front();
  result.largest = values.back();
  const size_t middle = values.size() / 2;
  result.median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  for (size_t i = 0; i < values.size(); ++i) {
    result.zeros += values[i] == 0.0;
    result.negatives += values[i] < 0.0;
    result.ones += values[i] == 1.0;
    result.distinct += i == 0 || values[i] != values[i - 1];
  }
  return result;
}

// One head's worth: shape [], [1], [1, 1]; per head: one dimension that is not 1.
int HeadsOfShape(const std::vector<int64_t>& shape) {
  int heads = 1;
  for (const int64_t size : shape) {
    if (size == 1) continue;
    if (heads != 1 || size < 1 || size > static_cast<int64_t>(kMostScaleValues)) return -1;
    heads = static_cast<int>(size);
  }
  return heads;
}

void AddOnce(const std::string& text, std::vector<std::string>* list) {
  if (std::find(list->begin(), list->end(), text) == list->end()) list->push_back(text);
}

// Gathers one family.
struct Gathered {
  FamilySummary summary;
  std::set<int> k_layers, v_layers, sizes;
  std::vector<double> k_values, v_values;

  void Add(const KvScaleTensor& scale) {
    const KvScaleSide side = scale.name.side;
    if (side == KvScaleSide::kQ || side == KvScaleSide::kProbability) return;
    if (summary.example.empty()) {
      summary.example = scale.tensor.name;
      summary.prefix = scale.name.place.prefix;
    }
    ++summary.tensors;
    AddOnce(scale.tensor.dtype, &summary.dtypes);
    AddOnce(ShapeText(scale.tensor.shape), &summary.shapes);
    summary.unread += scale.unread.empty() ? 0 : 1;
    sizes.insert(HeadsOfShape(scale.tensor.shape));
    const auto take = [&scale](std::set<int>* layers, std::vector<double>* values) {
      layers->insert(scale.name.place.layer);
      values->insert(values->end(), scale.values.begin(), scale.values.end());
    };
    if (side != KvScaleSide::kV) take(&k_layers, &k_values);
    if (side != KvScaleSide::kK) take(&v_layers, &v_values);
  }

  FamilySummary Finish(const std::vector<KvLayerNeed>& needs) && {
    summary.k_layers.assign(k_layers.begin(), k_layers.end());
    summary.v_layers.assign(v_layers.begin(), v_layers.end());
    for (const KvLayerNeed& need : needs) {
      if (!k_layers.contains(need.layer)) summary.missing_k_layers.push_back(need.layer);
      if (need.v && !v_layers.contains(need.layer)) summary.missing_v_layers.push_back(need.layer);
    }
    summary.k = StatisticsOf(std::move(k_values));
    summary.v = StatisticsOf(std::move(v_values));
    const bool one = sizes.contains(1);
    if (sizes.contains(-1)) {
      summary.granularity = ScaleGranularity::kOther;
    } else if (sizes.size() > 1 && one) {
      summary.granularity = ScaleGranularity::kMixed;
    } else if (!one) {
      summary.granularity = ScaleGranularity::kHead;
    }
    if (!sizes.empty()) summary.heads = *sizes.rbegin();
    return std::move(summary);
  }
};

CheckpointFinding Make(FindingLevel level, const char* code, const FamilySummary& family, const std::string& text,
                       const std::string& advice) {
  return {level, code, std::string(KvScaleFamilyName(family.family)) + ": " + text, advice};
}

void AddMissing(const FamilySummary& family, const std::vector<KvLayerNeed>& needs, Findings* out) {
  const auto add = [&](const char* side, const std::vector<int>& missing) {
    if (missing.empty()) return;
    out->push_back(Make(FindingLevel::kWarning, "kv_scales_missing_layers", family,
                        std::string(side) + " has no scale in " + std::to_string(missing.size()) + " of " +
                            std::to_string(needs.size()) + " layers that keep it (layers " + RangesText(missing) + ")",
                        "engines run these layers at 1.0, or take the other side's scale; calibrate them"));
  };
  add("K", family.missing_k_layers);
  add("V", family.missing_v_layers);
}

void AddBadValues(const char* side, const ScaleStatistics& values, const FamilySummary& family, Findings* out) {
  const auto add = [&](size_t count, const char* code, const char* what, const char* advice) {
    if (count == 0) return;
    out->push_back(Make(FindingLevel::kError, code, family,
                        std::string(side) + ": " + std::to_string(count) + " of " + std::to_string(values.values) +
                            " values are " + what,
                        advice));
  };
  add(values.zeros, "kv_scale_zero", "zero: the layer was never observed while calibrating",
      "do not serve with a quantized cache before these layers are calibrated");
  add(values.negatives, "kv_scale_negative", "negative: engines take them for 'not there' and run at 1.0",
      "calibrate anew");
  add(values.not_finite, "kv_scale_not_finite", "NaN or infinite", "calibrate anew");
}

bool AllOne(const ScaleStatistics& values) { return values.values > 0 && values.ones == values.values; }

bool ClampedSide(const ScaleStatistics& values) {
  return values.ones > 0 && values.ones < values.values && values.smallest == 1.0;
}

void AddConstants(const FamilySummary& family, const QuantizationDeclaration& declaration, Findings* out) {
  const size_t values = family.k.values + family.v.values;
  if (values < 2) return;
  if (AllOne(family.k) && (family.v.values == 0 || AllOne(family.v))) {
    const bool modelopt = declaration.producer == "modelopt" || declaration.method.starts_with("modelopt");
    out->push_back(
        Make(FindingLevel::kWarning, "kv_scales_all_one", family,
             std::string("all values are exactly 1.0: constant \"cast\" scales that hold nothing of the "
                         "model") +
                 (modelopt ? ", or true ones that an exporter clamped to at least 1.0 (ModelOpt before 0.43, "
                             "and its Megatron export)"
                           : ""),
             "the cache behaves as without scales: compare before you trust it, or calibrate"));
    return;
  }
  if (ClampedSide(family.k) || ClampedSide(family.v)) {
    out->push_back(Make(FindingLevel::kWarning, "kv_scales_clamped", family,
                        "no value is below 1.0 and " + std::to_string(family.k.ones + family.v.ones) + " of " +
                            std::to_string(values) +
                            " are exactly 1.0: an exporter clamped them to max(amax / 448, 1.0)",
                        "layers at 1.0 use a part of the range only; calibrate them anew"));
    return;
  }
  const bool equal = family.k.distinct == 1 &&
                     (family.v.values == 0 || (family.v.distinct == 1 && family.v.smallest == family.k.smallest));
  if (equal && family.k.zeros == 0 && family.k_layers.size() > 1) {
    out->push_back(
        Make(FindingLevel::kWarning, "kv_scales_constant", family,
             "all values are equal (" + std::to_string(family.k.smallest) + "): a constant, not a calibration",
             "calibrate by layer"));
  }
}

void AddGranularity(const FamilySummary& family, const std::vector<KvLayerNeed>& needs, Findings* out) {
  if (family.granularity == ScaleGranularity::kOther || family.granularity == ScaleGranularity::kMixed) {
    out->push_back(Make(FindingLevel::kError, "kv_scale_shape", family,
                        family.granularity == ScaleGranularity::kMixed
                            ? "some scales are per tensor and some per head"
                            : "the shape is neither one value nor one a head",
                        "no engine loads this rightly; write one value a layer"));
    return;
  }
  if (family.granularity != ScaleGranularity::kHead) return;
  std::set<int> wanted;
  for (const KvLayerNeed& need : needs) {
    if (need.kv_heads > 0) wanted.insert(need.kv_heads);
  }
  if (wanted.empty()) return;
  if (!wanted.contains(family.heads)) {
    out->push_back(Make(FindingLevel::kError, "kv_scale_heads_mismatch", family,
                        "scales have " + std::to_string(family.heads) + " values, but the model has " +
                            std::to_string(*wanted.begin()) + " KV heads",
                        "refused: these scales belong to another model or to another layout"));
    return;
  }
  out->push_back(Make(FindingLevel::kNote, "kv_scales_per_head", family,
                      "per head: an engine with one value a layer must refuse them; one that slices blindly takes one "
                      "head's value for all, another on each rank",
                      ""));
}

}  // namespace

std::string_view GranularityName(ScaleGranularity granularity) {
  switch (granularity) {
    case ScaleGranularity::kTensor:
      return "per tensor";
    case ScaleGranularity::kHead:
      return "per head";
    case ScaleGranularity::kMixed:
      return "mixed";
    case ScaleGranularity::kOther:
      break;
  }
  return "other";
}

std::vector<RankSlice> SlicesOf(int heads, int ranks) {
  std::vector<RankSlice> slices;
  if (heads < 1 || ranks < 1 || (heads % ranks != 0 && ranks % heads != 0)) return slices;
  for (int rank = 0; rank < ranks; ++rank) {
    if (ranks <= heads) {
      slices.push_back({rank, rank * (heads / ranks), heads / ranks});
    } else {
      slices.push_back({rank, rank / (ranks / heads), 1});
    }
  }
  return slices;
}

std::vector<FamilySummary> SummarizeScales(const std::vector<KvScaleTensor>& scales,
                                           const std::vector<KvLayerNeed>& needs) {
  std::map<std::pair<KvScaleFamily, KvScaleKind>, Gathered> families;
  for (const KvScaleTensor& scale : scales) {
    if (scale.name.place.stack != LayerStack::kDecoder) continue;
    Gathered& gathered = families[{scale.name.family, scale.name.kind}];
    gathered.summary.family = scale.name.family;
    gathered.summary.kind = scale.name.kind;
    gathered.Add(scale);
  }
  std::vector<FamilySummary> result;
  for (auto& [key, gathered] : families) {
    FamilySummary summary = std::move(gathered).Finish(needs);
    if (summary.tensors > 0) result.push_back(std::move(summary));
  }
  return result;
}

Findings ScaleFindings(const FamilySummary& family, const std::vector<KvLayerNeed>& needs,
                       const QuantizationDeclaration& declaration) {
  Findings findings;
  if (family.kind == KvScaleKind::kBias) {
    findings.push_back(Make(FindingLevel::kWarning, "kv_bias", family,
                            "biases of an affine KV format, whose names resemble those of projection biases; no engine "
                            "is known to apply them",
                            "export without an affine KV format"));
    return findings;
  }
  if (family.kind == KvScaleKind::kZeroPoint) {
    findings.push_back(Make(FindingLevel::kWarning, "kv_zero_point", family, "zero points: engines ignore them",
                            "quantize symmetrically"));
    return findings;
  }
  AddMissing(family, needs, &findings);
  AddBadValues("K", family.k, family, &findings);
  AddBadValues("V", family.v, family, &findings);
  AddConstants(family, declaration, &findings);
  AddGranularity(family, needs, &findings);
  if (family.unread > 0) {
    findings.push_back(Make(FindingLevel::kError, "kv_scale_unreadable", family,
                            std::to_string(family.unread) + " tensors have a dtype or a size that no scale has", ""));
  }
  if (family.kind == KvScaleKind::kAmax) {
    findings.push_back(Make(FindingLevel::kWarning, "kv_amax_not_scale", family,
                            "ranges (amax), not scales: a calibration state that was not exported",
                            "export it: scale = amax / 448 for FP8"));
  }
  return findings;
}

}  // namespace haypile
