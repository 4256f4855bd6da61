#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace haypile {

// E2M1, the 4-bit float of OCP MX and NVFP4: 1-2-1, bias 1. Pages: docs/formats/nvfp4.md, docs/formats/mxfp4.md.
//   code 0..7 = 0, 0.5, 1, 1.5, 2, 3, 4, 6; code 8..15 the negatives (8 = -0). No NaN, no infinity.
inline constexpr float kE2m1Max = 6.0f;
// What the encoder gives for NaN: no code. Who encodes rows puts NaN into the block scale instead.
inline constexpr uint8_t kE2m1NoCode = 0xff;

// The value of every code.
extern const std::array<float, 16> kE2m1Values;
inline float FloatFromE2m1(uint8_t code) { return kE2m1Values[code & 0xf]; }

// Round to nearest, ties to the even code; beyond 5 gives 6 with the value's sign. Not for NaN (it would give +-0).
[[gnu::always_inline]] constexpr uint32_t E2m1FromNumber(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const float abs = std::bit_cast<float>(bits & 0x7fffffffu);
  // A tie goes to the even neighbour: the lower one where the comparison is strict, else the upper one.
  const uint32_t magnitude = static_cast<uint32_t>(abs > 0.25f) + static_cast<uint32_t>(abs >= 0.75f) +
                             static_cast<uint32_t>(abs > 1.25f) + static_cast<uint32_t>(abs >= 1.75f) +
                             static_cast<uint32_t>(abs > 2.5f) + static_cast<uint32_t>(abs >= 3.5f) +
                             static_cast<uint32_t>(abs > 5.0f);
  return magnitude | ((bits >> 28) & 8u);
}

// As above for every float: infinity saturates, NaN gives kE2m1NoCode.
constexpr uint8_t E2m1FromFloat(float value) {
  if (value != value) return kE2m1NoCode;
  return static_cast<uint8_t>(E2m1FromNumber(value));
}

}  // namespace haypile
