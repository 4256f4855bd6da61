#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace haypile {

// A tensor to be written, with as many values as its shape says; an empty shape is a scalar.
struct F32Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// A whole safetensors file of these tensors.
std::string SafetensorsText(const std::vector<F32Tensor>& tensors);

// Writes the file at `from` with `tensors` behind its own to `to`, atomically; the two may be the same. The data is
// copied in pieces. kMalformed when `from` is no safetensors file or has a tensor of one of these names.
Status AppendToSafetensors(const std::string& from, const std::string& to, const std::vector<F32Tensor>& tensors);

}  // namespace haypile
