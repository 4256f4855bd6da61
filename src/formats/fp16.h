#pragma once

#include <bit>
#include <cstdint>

namespace haypile {

// IEEE 754 binary16, 1-5-10, bias 15, largest finite 65504, smallest 2^-24. Page: docs/formats/fp16.md.

// Exact; a signalling NaN comes out quiet, as the hardware conversion does it.
[[gnu::always_inline]] constexpr float FloatFromFp16(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16;
  const uint32_t abs = code & 0x7fffu;
  const uint32_t normal = (abs << 13) + (112u << 23);
  const uint32_t special = abs == 0x7c00u ? 0x7f800000u : (abs << 13) | 0x7fc00000u;
  // 0.5 has a last bit worth 2^-24, one step of the subnormals.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(0x3f000000u | (abs & 0x3ffu)) - 0.5f);
  const uint32_t finite = abs < 0x400u ? subnormal : normal;
  return std::bit_cast<float>(sign | (abs >= 0x7c00u ? special : finite));
}

// Round to nearest even; overflow (65520 and above) goes to infinity, NaN stays a (quiet) NaN with its sign.
[[gnu::always_inline]] constexpr uint16_t Fp16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t abs = bits & 0x7fffffffu;
  const uint32_t normal = ((abs + 0xfffu + ((abs >> 13) & 1u)) >> 13) - (112u << 10);
  const float aligned = std::bit_cast<float>(abs < 0x38800000u ? abs : 0u) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(aligned) - 0x3f000000u;
  const uint32_t nan = 0x7e00u | ((abs >> 13) & 0x3ffu);
  uint32_t code = abs < 0x38800000u ? subnormal : normal;
  code = abs >= 0x477ff000u ? 0x7c00u : code;
  code = abs > 0x7f800000u ? nan : code;
  return static_cast<uint16_t>(code | ((bits >> 16) & 0x8000u));
}

// The element of a KV cache: as above, but infinities and overflow saturate to +-65504 (0x7bff).
[[gnu::always_inline]] constexpr uint16_t Fp16FromFloatSaturating(float value) {
  const uint32_t code = Fp16FromFloat(value);
  return static_cast<uint16_t>((code & 0x7fffu) == 0x7c00u ? code - 1u : code);
}

}  // namespace haypile
