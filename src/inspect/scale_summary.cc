#include "inspect/scale_summary.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "checkpoint/weight_type.h"

namespace haypile {
namespace {

ScaleStatistics StatisticsOf(const ScalesByLayer& by_layer) {
  ScaleStatistics result;
  std::vector<double> values;
  for (const auto& [layer, of_layer] : by_layer) {
    for (const double value : of_layer) {
      ++result.values;
      if (std::isfinite(value)) {
        values.push_back(value);
      } else {
        ++result.not_finite;
      }
    }
  }
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
    const int layer = scale.name.place.layer;
    if (!scale.unread.empty()) {
      ++summary.unread;
      summary.unread_layers.insert(layer);
    }
    const int heads = HeadsOfShape(scale.tensor.shape);
    sizes.insert(heads);
    const auto [known, fresh] = summary.heads_by_layer.emplace(layer, heads);
    if (!fresh && known->second >= 0) known->second = heads < 0 ? heads : std::max(known->second, heads);
    if (heads == 1) summary.single_layers.insert(layer);
    const auto take = [&](std::set<int>* layers, ScalesByLayer* values) {
      layers->insert(layer);
      if (scale.values.empty()) return;
      std::vector<double>& of_layer = (*values)[layer];
      of_layer.insert(of_layer.end(), scale.values.begin(), scale.values.end());
    };
    if (side != KvScaleSide::kV) take(&k_layers, &summary.k_values);
    if (side != KvScaleSide::kK) take(&v_layers, &summary.v_values);
  }

  FamilySummary Finish(const std::vector<KvLayerNeed>& needs) && {
    summary.k_layers.assign(k_layers.begin(), k_layers.end());
    summary.v_layers.assign(v_layers.begin(), v_layers.end());
    for (const KvLayerNeed& need : needs) {
      if (!k_layers.contains(need.layer)) summary.missing_k_layers.push_back(need.layer);
      if (need.v && !v_layers.contains(need.layer)) summary.missing_v_layers.push_back(need.layer);
    }
    summary.k = StatisticsOf(summary.k_values);
    summary.v = StatisticsOf(summary.v_values);
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

// A model of one KV head has per-head scales of shape [1, 1, 1]: the rank of the shape tells, not the count.
bool OneHeadEach(const FamilySummary& summary, const std::vector<KvLayerNeed>& needs) {
  const bool three = std::all_of(summary.shapes.begin(), summary.shapes.end(), [](const std::string& shape) {
    return std::count(shape.begin(), shape.end(), ',') == 2;
  });
  return three && !needs.empty() &&
         std::all_of(needs.begin(), needs.end(), [](const KvLayerNeed& need) { return need.kv_heads == 1; });
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

std::map<int, int> FirstLayerByHeads(const FamilySummary& family) {
  std::map<int, int> first;
  for (const auto& [layer, heads] : family.heads_by_layer) {
    if (heads > 0) first.emplace(heads, layer);
  }
  return first;
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
    if (summary.tensors == 0) continue;
    const bool one_head = summary.granularity == ScaleGranularity::kTensor && OneHeadEach(summary, needs);
    if (one_head) summary.granularity = ScaleGranularity::kHead;
    result.push_back(std::move(summary));
  }
  return result;
}

}  // namespace haypile
