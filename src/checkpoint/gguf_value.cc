#include "checkpoint/gguf_value.h"

#include <array>

namespace haypile {
namespace {

struct TypeRow {
  std::string_view name;
  uint64_t min_bytes;
};

constexpr std::array<TypeRow, 13> kTypes = {{
    {"uint8", 1},
    {"int8", 1},
    {"uint16", 2},
    {"int16", 2},
    {"uint32", 4},
    {"int32", 4},
    {"float32", 4},
    {"bool", 1},
    {"string", 8},
    {"array", 12},
    {"uint64", 8},
    {"int64", 8},
    {"float64", 8},
}};

}  // namespace

std::string_view GgufValueTypeName(GgufValueType type) {
  const auto number = static_cast<uint32_t>(type);
  return number < kTypes.size() ? kTypes[number].name : "";
}

uint64_t GgufValueMinBytes(GgufValueType type) {
  const auto number = static_cast<uint32_t>(type);
  return number < kTypes.size() ? kTypes[number].min_bytes : 0;
}

bool IsGgufInteger(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
      return true;
    default:
      return false;
  }
}

}  // namespace haypile
