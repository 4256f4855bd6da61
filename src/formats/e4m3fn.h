#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "formats/minifloat.h"

namespace haypile {

// OCP E4M3 (the "FN" of finite and NaN): 1-4-3, bias 7. Pages: docs/formats/fp8_e4m3.md, docs/formats/nvfp4.md.
//   s eeee mmm   eeee > 0: (-1)^s 2^(eeee-7) (1 + mmm/8);  eeee = 0: (-1)^s 2^-6 mmm/8
//   0x7e = 448 largest, 0x08 = 2^-6 smallest normal, 0x01 = 2^-9 smallest, 0x80 = -0, 0x7f and 0xff NaN, no infinity.
inline constexpr float kE4m3fnMax = 448.0f;

// The value of every code.
extern const std::array<float, 256> kE4m3fnValues;
inline float FloatFromE4m3fn(uint8_t code) { return kE4m3fnValues[code]; }

// Round to nearest even; beyond 448 and infinity saturate with their sign; NaN gives 0x7f or 0xff by its sign.
[[gnu::always_inline]] constexpr uint8_t E4m3fnFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t abs = bits & minifloat::kFloatAbs;
  const uint32_t finite = minifloat::RoundMagnitude<3, 7, std::bit_cast<uint32_t>(kE4m3fnMax)>(abs);
  return static_cast<uint8_t>((abs > minifloat::kFloatInf ? 0x7fu : finite) | ((bits >> 24) & 0x80u));
}

}  // namespace haypile
