#pragma once

#include <string_view>
#include <vector>

#include "planner/kept_modules.h"
#include "planner/model_config_fields.h"
#include "planner/model_config_shape.h"
#include "planner/model_geometry.h"

namespace haypile {

// Where a checkpoint says how its weights and its cache are stored.
struct WeightMetadata {
  const ConfigObject& text;   // the part that describes the decoder
  const ConfigObject& outer;  // the whole file; they may be one
  std::string_view hf_quant_config;
  const std::vector<BlockPlan>& blocks;
};

// Sets model_dtype_bytes, state_dtype_bytes, weights, checkpoint_kv_dtype, checkpoint_kv_conflict and
// quantization_method of `model`, and the shares of its modules that are not quantized.
// kUnsupported names a dtype or a quantization that is not understood.
Status ReadWeightFormat(const WeightMetadata& metadata, ModelGeometry* model, KeptShares* kept);

}  // namespace haypile
