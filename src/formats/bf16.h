#pragma once

#include <bit>
#include <cstdint>

namespace haypile {

// bfloat16: the upper half of a float, 1-8-7. Page: docs/formats/bf16.md.

[[gnu::always_inline]] constexpr float FloatFromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest even; overflow goes to infinity, NaN stays a (quiet) NaN with its sign.
[[gnu::always_inline]] constexpr uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

// The element of a KV cache: as above, but infinities and overflow saturate to the largest finite value (0x7f7f).
[[gnu::always_inline]] constexpr uint16_t Bf16FromFloatSaturating(float value) {
  const uint32_t code = Bf16FromFloat(value);
  return static_cast<uint16_t>((code & 0x7fffu) == 0x7f80u ? code - 1u : code);
}

}  // namespace haypile
