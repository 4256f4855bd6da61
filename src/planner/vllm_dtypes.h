#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace haypile {

// The values of vLLM's --kv-cache-dtype by how they are stored.
enum class VllmKvMode {
  kModelDtype,
  kHalf,
  kFp8,
  kNvfp4,
  kInt8PerTokenHead,
  kInt4PerTokenHead,
  kFp8PerTokenHead,
  kTurboquant,
  kFp8DsMla
};

struct VllmKvDtype {
  std::string name;  // "auto", "fp8", "nvfp4", ...
  VllmKvMode mode = VllmKvMode::kModelDtype;
  int key_bits = 0;    // turboquant: bits of one element of K; 8 is stored without a norm
  int value_bits = 0;  // turboquant
  bool Quantized() const { return mode != VllmKvMode::kModelDtype && mode != VllmKvMode::kHalf; }
  bool PerTokenHead() const {
    return mode == VllmKvMode::kInt8PerTokenHead || mode == VllmKvMode::kInt4PerTokenHead ||
           mode == VllmKvMode::kFp8PerTokenHead;
  }
};

// kInvalidArgument lists the values that vLLM accepts; kUnsupported: a value it accepts whose layout is not known.
Result<VllmKvDtype> ParseVllmKvDtype(std::string_view name);

// Bytes of one token in one layer of `heads` KV heads on one rank, K and V, scales included (facts: backends'
// customize_spec). `model_bytes` is the width of the model's dtype. kUnsupported when the format cannot hold the heads.
Result<int64_t> VllmHeadBytes(const VllmKvDtype& dtype, int heads, int dim_k, int dim_v, int model_bytes);

// The same of one latent row of `row` elements (MLA: no V, one "head").
Result<int64_t> VllmLatentBytes(const VllmKvDtype& dtype, int row, int model_bytes);

}  // namespace haypile
