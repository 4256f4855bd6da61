#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "formats/minifloat.h"

namespace haypile {

// OCP E5M2: 1-5-2, bias 15, the upper byte of an fp16. Page: docs/formats/fp8_e5m2.md.
//   s eeeee mm   0 < eeeee < 31: (-1)^s 2^(eeeee-15) (1 + mm/4);  eeeee = 0: (-1)^s 2^-14 mm/4
//   0x7b = 57344 largest, 0x04 = 2^-14 smallest normal, 0x01 = 2^-16 smallest, 0x80 = -0, 0x7c infinity,
//   0x7d to 0x7f NaN (and their negatives). The encoder never gives infinity.
inline constexpr float kE5m2Max = 57344.0f;

// The value of every code.
extern const std::array<float, 256> kE5m2Values;
inline float FloatFromE5m2(uint8_t code) { return kE5m2Values[code]; }

// Round to nearest even; beyond 57344 and infinity saturate with their sign; NaN gives 0x7e or 0xfe by its sign.
[[gnu::always_inline]] constexpr uint8_t E5m2FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t abs = bits & minifloat::kFloatAbs;
  const uint32_t finite = minifloat::RoundMagnitude<2, 15, std::bit_cast<uint32_t>(kE5m2Max)>(abs);
  return static_cast<uint8_t>((abs > minifloat::kFloatInf ? 0x7eu : finite) | ((bits >> 24) & 0x80u));
}

}  // namespace haypile
