#pragma once

#include <string>

#include "base/result.h"
#include "spec/model_spec.h"

namespace haypile {

// Ranges and relations that every ModelSpec must satisfy before memory is sized from it: kMalformed names the value.
// `where` begins the message.
Status CheckModelSpec(const ModelSpec& spec, const std::string& where);

// gemma3: query and full-attention layers' pattern: every `period`-th layer is full, the others see `window` tokens and
// use the local RoPE. Sets spec->layers.
void SetSlidingPattern(int period, int window, ModelSpec* spec);

}  // namespace haypile
