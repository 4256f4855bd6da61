#pragma once

#include <vector>

#include "planner/model_config_fields.h"
#include "planner/model_config_shape.h"

namespace haypile {

// Of each kind of module, the share of layers (0 to 1) that a quantized checkpoint leaves at the model's dtype.
struct KeptShares {
  double attention = 0.0;  // and state layers
  double dense = 0.0;
  double shared_experts = 0.0;
  double experts = 0.0;
};

// Reads the lists of names and patterns that quantization metadata excludes: modules_to_not_convert, ignore,
// ignored_layers and exclude_modules, with '*' or, after "re:", with ".*" and one group of alternatives. What a pattern
// of another form excludes is not counted.
KeptShares ReadKeptShares(const ConfigObject& quantization, const std::vector<BlockPlan>& blocks);

}  // namespace haypile
