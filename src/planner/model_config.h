#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/model_geometry.h"

namespace haypile {

// Reads the text of a config.json (nested text_config and thinker spellings included) into a geometry. `name` is for
// messages. `hf_quant_config` is the text of hf_quant_config.json beside it, or empty.
// kMalformed: not JSON, a field of the wrong type or out of range (the message names the field and what was expected).
// kUnsupported: an architecture or cache layout that is not understood (the message names it); nothing is guessed.
Result<ModelGeometry> ParseModelConfig(std::string_view config_json, const std::string& name,
                                       std::string_view hf_quant_config = {});

}  // namespace haypile
