#pragma once

#include <string_view>

#include "planner/model_config_fields.h"
#include "planner/model_geometry.h"

namespace haypile {

// Sets model_dtype_bytes, state_dtype_bytes, weights, checkpoint_kv_dtype, checkpoint_kv_conflict and
// quantization_method. `text` is the part that describes the decoder, `outer` the whole file (they may be one).
// kUnsupported names a dtype or a quantization that is not understood.
Status ReadWeightFormat(const ConfigObject& text, const ConfigObject& outer, std::string_view hf_quant_config,
                        ModelGeometry* model);

}  // namespace haypile
