#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/gguf_value.h"
#include "checkpoint/weight_type.h"

namespace haypile {

// What a GGUF file holds, checked: every offset lies inside the file, no two tensors share a byte, names are unique.
struct GgufContent {
  uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<StoredTensor> tensors;  // their bytes point into the parsed memory
};

// `name` stands for the file in messages. No allocation is larger than the bytes that justify it.
Result<GgufContent> ParseGgufContent(const std::string& name, std::span<const uint8_t> bytes);

}  // namespace haypile
