#pragma once

#include "base/result.h"
#include "checkpoint/config_fields.h"
#include "spec/model_spec.h"

namespace haypile {

// RoPE out of config.json into spec->rope and, for gemma3, spec->local_rope: rope_theta with rope_scaling, or the newer
// rope_parameters (for gemma3 one object a kind of layer). Needs spec->family and spec->max_positions; raises the
// latter to what YaRN stretches it to. Kinds other than default, linear, llama3 and yarn are kUnsupported.
Status ReadConfigRope(const ConfigFields& fields, ModelSpec* spec);

}  // namespace haypile
