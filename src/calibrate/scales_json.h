#pragma once

#include <string>

#include "base/result.h"
#include "kvcache/kv_cache.h"

namespace haypile {

// The text of a --kv-scales file (docs/kv-scales.md), which ReadKvScales reads back equal to the last bit. A layer
// whose heads are alike is one number.
std::string KvScalesFileText(const KvScales& scales);

// What SGLang's --quantization-param-path reads: for each tensor-parallel rank and layer one float, K's and V's scale
// alike, so the larger of the two over the heads of the rank. `model_type` is config.json's. kInvalidArgument for a
// tp_size that KV heads cannot be divided or repeated over.
Result<std::string> SglangScalesText(const KvScales& scales, const std::string& model_type, int tp_size);

}  // namespace haypile
