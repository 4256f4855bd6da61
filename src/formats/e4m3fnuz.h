#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "formats/minifloat.h"

namespace haypile {

// E4M3 of AMD's CDNA 3 (finite, NaN, unsigned zero): 1-4-3, bias 8. Page: docs/formats/fp8_e4m3fnuz.md.
//   s eeee mmm   eeee > 0: (-1)^s 2^(eeee-8) (1 + mmm/8);  eeee = 0: (-1)^s 2^-7 mmm/8
//   0x7f = 240 largest, 0x08 = 2^-7 smallest normal, 0x01 = 2^-10 smallest, 0x80 the only NaN; no -0, no infinity.
inline constexpr float kE4m3fnuzMax = 240.0f;

// The value of every code.
extern const std::array<float, 256> kE4m3fnuzValues;
inline float FloatFromE4m3fnuz(uint8_t code) { return kE4m3fnuzValues[code]; }

// Round to nearest even; beyond 240 and infinity saturate with their sign; NaN gives 0x80; a negative value that rounds
// to zero gives 0x00.
[[gnu::always_inline]] constexpr uint8_t E4m3fnuzFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t abs = bits & minifloat::kFloatAbs;
  const uint32_t finite = minifloat::RoundMagnitude<3, 8, std::bit_cast<uint32_t>(kE4m3fnuzMax)>(abs);
  const uint32_t sign = finite == 0 ? 0u : (bits >> 24) & 0x80u;
  return static_cast<uint8_t>(abs > minifloat::kFloatInf ? 0x80u : finite | sign);
}

}  // namespace haypile
