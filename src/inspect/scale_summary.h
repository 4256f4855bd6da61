#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/kv_scale_tensors.h"
#include "inspect/layer_needs.h"

namespace haypile {

// Values of one side (K or V) of a family.
struct ScaleStatistics {
  size_t values = 0;
  double smallest = 0, median = 0, largest = 0;  // of the finite ones
  size_t zeros = 0, negatives = 0, not_finite = 0, ones = 0, distinct = 0;
};

enum class ScaleGranularity { kTensor, kHead, kOther, kMixed };

// Values of one side by layer.
using ScalesByLayer = std::map<int, std::vector<double>>;

// All scales of one naming family in the decoder's layers.
struct FamilySummary {
  KvScaleFamily family = KvScaleFamily::kAttention;
  KvScaleKind kind = KvScaleKind::kScale;
  std::string example;  // the first tensor's name
  std::string prefix;   // before the layer number: "model.layers"
  size_t tensors = 0;
  std::vector<std::string> dtypes;  // distinct
  std::vector<std::string> shapes;  // distinct
  ScaleGranularity granularity = ScaleGranularity::kTensor;
  int heads = 0;                      // values of a per-head scale
  std::map<int, int> heads_by_layer;  // most values of one scale; -1: one has an odd shape
  std::set<int> single_layers;        // a scale of K or V has one value
  std::set<int> unread_layers;
  std::vector<int> k_layers, v_layers;                  // that have one
  std::vector<int> missing_k_layers, missing_v_layers;  // that keep K (V), and have none
  ScaleStatistics k, v;
  ScalesByLayer k_values, v_values;  // of tensors that were read
  size_t unread = 0;
};

// One summary a family and kind, of the decoder's layers alone.
std::vector<FamilySummary> SummarizeScales(const std::vector<KvScaleTensor>& scales,
                                           const std::vector<KvLayerNeed>& needs);

// Heads of per-head scales and the first layer that has so many: more than one where KV heads differ by layer.
std::map<int, int> FirstLayerByHeads(const FamilySummary& family);

std::string_view GranularityName(ScaleGranularity granularity);  // "per tensor", "per head", "other", "mixed"

}  // namespace haypile
