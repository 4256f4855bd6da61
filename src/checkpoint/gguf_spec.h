#pragma once

#include "base/result.h"
#include "checkpoint/gguf.h"
#include "spec/model_spec.h"

namespace haypile {

// The hyper-parameters in a GGUF file's metadata (plus what its tensor list says: vocabulary, tied output, RoPE
// frequency factors). kUnsupported names an architecture or feature that cannot be run rightly.
Result<ModelSpec> ModelSpecFromGguf(const GgufFile& file);

}  // namespace haypile
