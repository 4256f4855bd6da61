#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/kv_scale_tensors.h"
#include "inspect/declaration.h"
#include "inspect/finding.h"
#include "inspect/layer_needs.h"

namespace haypile {

// Values of one side (K or V) of a family.
struct ScaleStatistics {
  size_t values = 0;
  double smallest = 0, median = 0, largest = 0;  // of the finite ones
  size_t zeros = 0, negatives = 0, not_finite = 0, ones = 0, distinct = 0;
};

enum class ScaleGranularity { kTensor, kHead, kOther, kMixed };

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
  int heads = 0;                                        // values of a per-head scale
  std::vector<int> k_layers, v_layers;                  // that have one
  std::vector<int> missing_k_layers, missing_v_layers;  // that keep K (V), and have none
  ScaleStatistics k, v;
  size_t unread = 0;
};

// The heads whose scales one rank takes.
struct RankSlice {
  int rank = 0, first_head = 0, heads = 0;
};

// Under tensor parallelism of `ranks`: an equal share of heads each, or, with more ranks than heads, one head that
// several ranks hold. Empty when neither divides.
std::vector<RankSlice> SlicesOf(int heads, int ranks);

// One summary a family and kind, of the decoder's layers alone.
std::vector<FamilySummary> SummarizeScales(const std::vector<KvScaleTensor>& scales,
                                           const std::vector<KvLayerNeed>& needs);

// What is wrong or odd with a family's scales: missing, zero, not a number, negative, constant, clamped, granularity.
Findings ScaleFindings(const FamilySummary& family, const std::vector<KvLayerNeed>& needs,
                       const QuantizationDeclaration& declaration);

std::string_view GranularityName(ScaleGranularity granularity);  // "per tensor", "per head", "other", "mixed"

}  // namespace haypile
