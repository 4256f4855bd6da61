#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/model_spec.h"

namespace haypile {

// One tensor that a model of some spec must have, by the names of checkpoint.h.
struct PlannedTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major [out][in]
  bool is_norm = false;
  int rope_heads = 0;  // heads whose rows RoPE rotates, 0 for a tensor it does not touch
};

// Every tensor of the model, in the order of the forward pass.
std::vector<PlannedTensor> PlanTensors(const ModelSpec& spec);

// The name of the same tensor in a GGUF file.
std::string GgufTensorName(const std::string& name, ModelFamily family);

}  // namespace haypile
