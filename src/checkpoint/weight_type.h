#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace haypile {

// How the elements of a stored tensor are encoded. kOther: the size is known, but there is no decoder.
enum class WeightType { kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ4K, kQ5K, kQ6K, kOther };

struct WeightTypeInfo {
  WeightType type;
  std::string_view name;  // as the file format's description spells it
  int block_elements;
  int block_bytes;
};

// By the number that a GGUF tensor record holds; null for one that is not known.
const WeightTypeInfo* GgufWeightType(uint32_t id);
// By the name in a safetensors header; null for one that is not known.
const WeightTypeInfo* SafetensorsWeightType(std::string_view name);

// A tensor as it lies in a file: row-major shape, last dimension contiguous.
struct StoredTensor {
  std::string name;
  const WeightTypeInfo* type = nullptr;
  std::vector<int64_t> shape;
  uint64_t file_offset = 0;  // of the first byte, from the start of the file
  std::span<const uint8_t> bytes;
};

// Product of the dimensions, each of which must be >= 0; nothing when it exceeds int64.
std::optional<int64_t> ElementCount(std::span<const int64_t> shape);
// "[576, 1536]"
std::string ShapeText(std::span<const int64_t> shape);
// A name out of a file, fit for a message: quoted, unprintable bytes as \xNN, cut when very long.
std::string QuotedName(std::string_view name);

}  // namespace haypile
