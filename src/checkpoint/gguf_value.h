#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace haypile {

// The value types of GGUF metadata, by the numbers in the file.
enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "uint32"; "" for a number that is no type.
std::string_view GgufValueTypeName(GgufValueType type);
// Bytes of one value in the file; for strings and arrays the least they can take; 0 for no type.
uint64_t GgufValueMinBytes(GgufValueType type);
bool IsGgufInteger(GgufValueType type);

// Where a metadata value lies: `count` values of `type` one after another from byte `offset`.
struct GgufValue {
  GgufValueType type = GgufValueType::kUint8;
  bool is_array = false;
  uint64_t count = 1;
  uint64_t offset = 0;
};

}  // namespace haypile
