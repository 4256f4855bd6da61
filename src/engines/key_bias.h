#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace haypile {

// How large the biases of the key projections are. A few layers with biases far above the rest stretch the range of K
// there: an 8-bit float at one scale a layer then cuts off or loses bits.
struct KeyBias {
  struct Layer {
    int layer = 0;
    double norm = 0.0;  // L2
  };
  int layers = 0;  // that have such a bias
  double median_norm = 0.0;
  std::vector<Layer> outliers;  // above kOutlierTimes medians, by layer
};
inline constexpr double kOutlierTimes = 5.0;

// Reads the tensors *.k_proj.bias of a Hugging Face folder, and nothing else of its data. Nothing: the folder holds no
// safetensors. No layers: the model has no such biases. kMalformed, kIo of the reads.
Result<std::optional<KeyBias>> ReadKeyBias(const std::string& folder);

}  // namespace haypile
