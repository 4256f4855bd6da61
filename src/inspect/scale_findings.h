#pragma once

#include <vector>

#include "inspect/declaration.h"
#include "inspect/finding.h"
#include "inspect/layer_needs.h"
#include "inspect/scale_summary.h"
#include "planner/model_geometry.h"

namespace haypile {

// What is wrong or odd with the values of one family's scales: zero, negative, not a number, at a dtype's epsilon, too
// small to divide by, too large to be a scale, constant, clamped, K and V alike; and with their shapes.
CheckpointFindings ScaleFindings(const FamilySummary& family, const std::vector<KvLayerNeed>& needs,
                                 const QuantizationDeclaration& declaration);

// Layers that keep K (V), and for which no family of `families` has a scale of it.
struct MissingScales {
  std::vector<int> k, v;
};
MissingScales MissingOf(const std::vector<FamilySummary>& families, const std::vector<KvLayerNeed>& needs);

// Of all families together: layers without a scale, two families for one layer, and, where the geometry is known
// (`geometry` is not null), scales of layers that keep no cache or that the model does not have.
CheckpointFindings CoverageFindings(const std::vector<FamilySummary>& families, const std::vector<KvLayerNeed>& needs,
                                    const ModelGeometry* geometry);

}  // namespace haypile
