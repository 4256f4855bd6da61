#pragma once

#include <bit>
#include <cstdint>

namespace haypile {

// E8M0, the block scale of OCP MX: an exponent alone. Code 0..254 = 2^(code-127), 0xff NaN; no sign, no zero, no
// infinity. Page: docs/formats/mxfp4.md.
inline constexpr uint8_t kE8m0Nan = 0xff;

[[gnu::always_inline]] constexpr float FloatFromE8m0(uint8_t code) {
  const uint32_t bits = code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23;
  return std::bit_cast<float>(code == kE8m0Nan ? 0x7fc00000u : bits);
}

// 1 / FloatFromE8m0(code), exact; for codes 0..253 (2^-127 is the smallest power of two that this can give).
[[gnu::always_inline]] constexpr float ReciprocalOfE8m0(uint8_t code) {
  return FloatFromE8m0(static_cast<uint8_t>(254 - code));
}

// The shared scale of the OCP rule, 2^(floor(log2(amax)) - element_emax), held inside [2^-127, 2^127]. amax 0 gives
// 2^-127, infinity counts as the largest finite float, NaN gives kE8m0Nan. element_emax: the exponent of the element's
// largest value, 2 for E2M1. amax >= 0.
constexpr uint8_t E8m0SharedScale(float amax, int element_emax) {
  const uint32_t bits = std::bit_cast<uint32_t>(amax) & 0x7fffffffu;
  if (bits > 0x7f800000u) return kE8m0Nan;
  // The exponent field is floor(log2) + 127 for normal floats; subnormal ones end at the lower bound anyway.
  const int exponent = static_cast<int>(bits >> 23) - (bits == 0x7f800000u ? 1 : 0);
  return static_cast<uint8_t>(exponent > element_emax ? exponent - element_emax : 0);
}

}  // namespace haypile
