#pragma once

#include <bit>
#include <cstdint>

// The arithmetic that the 8-bit float elements share. Everything is integer or single float operations without
// branches, so that loops over a row vectorize, and always inlined, so that a file built with other instruction-set
// flags leaves no weak copy behind.
namespace haypile::minifloat {

inline constexpr uint32_t kFloatAbs = 0x7fffffffu;
inline constexpr uint32_t kFloatInf = 0x7f800000u;
inline constexpr uint32_t kFloatQuietNan = 0x7fc00000u;

// Magnitude code (sign bit clear) of the float whose bits without sign are `abs` (NaN excluded): round to nearest even
// on kMantissa bits with exponent bias kBias, subnormals included, values above the float with bits kMaxBits saturate.
template <int kMantissa, int kBias, uint32_t kMaxBits>
[[gnu::always_inline]] constexpr uint32_t RoundMagnitude(uint32_t abs) {
  constexpr int kShift = 23 - kMantissa;
  constexpr uint32_t kMinNormalBits = static_cast<uint32_t>(127 + 1 - kBias) << 23;
  // A float in [2^e, 2^(e+1)) has steps of 2^(e-23). Adding this power of two leaves the sum's last bit worth one
  // subnormal step, so the addition itself rounds to nearest even and the low bits of the sum are the code.
  constexpr uint32_t kAlignBits = static_cast<uint32_t>(127 + 1 - kBias - kMantissa + 23) << 23;
  abs = abs < kMaxBits ? abs : kMaxBits;
  const uint32_t odd = (abs >> kShift) & 1u;
  const uint32_t normal =
      ((abs + (1u << (kShift - 1)) - 1u + odd) >> kShift) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
  const float aligned = std::bit_cast<float>(abs < kMinNormalBits ? abs : 0u) + std::bit_cast<float>(kAlignBits);
  const uint32_t subnormal = std::bit_cast<uint32_t>(aligned) - kAlignBits;
  return abs < kMinNormalBits ? subnormal : normal;
}

// The float of a finite magnitude code; exact, and without subnormal floats on the way.
template <int kMantissa, int kBias>
constexpr float FiniteValue(uint32_t magnitude) {
  constexpr uint32_t kMinNormalBits = static_cast<uint32_t>(127 + 1 - kBias) << 23;
  if (magnitude >> kMantissa != 0) {
    return std::bit_cast<float>((magnitude << (23 - kMantissa)) + (static_cast<uint32_t>(127 - kBias) << 23));
  }
  return std::bit_cast<float>(kMinNormalBits | magnitude << (23 - kMantissa)) - std::bit_cast<float>(kMinNormalBits);
}

}  // namespace haypile::minifloat
