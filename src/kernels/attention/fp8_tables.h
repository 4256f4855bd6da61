// 8-bit floats to BF16 through tables of 128 bytes: every code, subnormal or not, is exact. For processors that look up
// 128 bytes in one instruction (VBMI). Included only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_FP8_TABLES_H_
#define HAYPILE_KERNELS_ATTENTION_FP8_TABLES_H_

#include <bit>
#include <cstdint>

#include "kernels/isa/simd.h"

namespace haypile {
namespace {

// What the code of an 8-bit float without its sign is as BF16, from its exponent and mantissa fields.
struct Fp8Kind {
  int mantissa_bits, bias;
  int first_special, first_nan;  // codes from first_special on are infinite, from first_nan on NaN
  bool minus_zero_is_nan;
};
inline constexpr Fp8Kind kE4m3Kind{3, 7, 0x7f, 0x7f, false};
inline constexpr Fp8Kind kE4m3FnuzKind{3, 8, 0x80, 0x80, true};
inline constexpr Fp8Kind kE5m2Kind{2, 15, 0x7c, 0x7d, false};

constexpr uint16_t Fp8AsBf16(const Fp8Kind& kind, int code) {
  if (code >= kind.first_nan) return 0x7fc0;
  if (code >= kind.first_special) return 0x7f80;
  const int exponent = code >> kind.mantissa_bits;
  int mantissa = code & ((1 << kind.mantissa_bits) - 1);
  int power = exponent - kind.bias;  // value = mantissa with its leading one / 2^mantissa_bits * 2^power
  if (exponent == 0) {
    if (mantissa == 0) return 0;
    const int shift = kind.mantissa_bits + 1 - std::bit_width(static_cast<unsigned>(mantissa));
    mantissa = (mantissa << shift) & ((1 << kind.mantissa_bits) - 1);
    power = 1 - kind.bias - shift;
  }
  return static_cast<uint16_t>((power + 127) << 7 | mantissa << (7 - kind.mantissa_bits));
}

// One byte of each code's BF16 number.
template <Fp8Kind kKind, int kByte>
struct alignas(64) Fp8Bytes {
  constexpr Fp8Bytes() {
    for (int code = 0; code < 128; ++code) of[code] = static_cast<uint8_t>(Fp8AsBf16(kKind, code) >> (8 * kByte));
  }
  uint8_t of[128] = {};
};

// The low and high bytes of the BF16 numbers of a vector of codes.
template <Fp8Kind kKind, typename B>
inline __attribute__((always_inline)) void Fp8BytePlanes(B codes, B& low, B& high) {
  static constexpr Fp8Bytes<kKind, 0> kLow;
  static constexpr Fp8Bytes<kKind, 1> kHigh;
  low = Lookup128(kLow.of, codes);
  high = Lookup128(kHigh.of, codes) | (codes & 0x80);
  if constexpr (kKind.minus_zero_is_nan) {
    const B nan = (B)(codes == 0x80);
    low = low | nan;
    high = high | nan;
  }
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_FP8_TABLES_H_
