// Products of queries and of weights with 8-bit floats, for few rows: nine operations decode 32 elements. Included
// only by per-ISA units.
//
// A 32-bit word of a tile holds four codes. Shifted so that its exponent field ends at bit 23, a code is an FP32
// number: its sign copied down is cut off by a mask, its value is too small by a power of two (2^120 for E4M3) and its
// subnormals are FP32 subnormals, so nothing is rounded or flushed. The missing power of two is put half on the other
// factor (kBoost) and half on the sum, so that products stay normal. Only processors that multiply FP32 subnormals at
// full speed may use this (SubnormalsAreFast). NaN and Inf codes come out finite: unless the writer has seen none, they
// are looked for (Note, AnySpecial), and the caller then takes the decoders of kv_decoders.h.
//
// In the layout of 8-bit elements (tile_layout.h) byte b of word w of a 128-bit lane holds lane n = 2*(w%2) + b/2 and
// inner element i = 2*(w/2) + b%2. So a vector of bytes b has elements i and i+2 side by side: the other factor comes
// as the pattern [x_i x_i x_i+2 x_i+2], and two sums, of even and of odd n, are joined at the end by JoinPairs.
#ifndef HAYPILE_KERNELS_ATTENTION_FP8_PRODUCTS_H_
#define HAYPILE_KERNELS_ATTENTION_FP8_PRODUCTS_H_

#include "kernels/attention/tile_layout.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

constexpr float kBoost = 0x1p60f;

// kShift: from the code at the top byte to FP32's exponent position; kMask: sign, exponent and mantissa bits kept.
template <int kShift, uint32_t kMask, int kBias>
struct DirectFp8 {
  static constexpr float kRest = kBias == 15 ? 0x1p52f : kBias == 8 ? 0x1p59f : 0x1p60f;  // 2^(127 - bias) / kBoost
  // Byte b of every word to out[b]. Two codes of a word are shifted at once, in halves of 16 bits.
  template <int N>
  static inline void Decode(typename Vec<N>::U words, typename Vec<N>::F (&out)[4]) {
    using F = typename Vec<N>::F;
    using U = typename Vec<N>::U;
    using W = typename Vec<N>::W;
    const U even = (U)((W)((W)words << 8) >> kShift), odd = (U)((W)words >> kShift);
    out[0] = (F)((even << 16) & kMask);
    out[1] = (F)((odd << 16) & kMask);
    out[2] = (F)(even & kMask);
    out[3] = (F)(odd & kMask);
  }
  // Adds to `seen` what AnySpecial needs to know of `bytes` codes, a multiple of 256. A loop of its own: registers are
  // what the products have least of.
  template <typename B>
  static inline B Note(B seen, const uint8_t* codes, int64_t bytes) {
    constexpr int kLines = 4;
    B lines[kLines] = {};
    for (int64_t at = 0; at < bytes; at += kLines * sizeof(B)) {
      HAYPILE_UNROLL
      for (int i = 0; i < kLines; ++i) {
        const B code = LoadVec<B>(codes + at + i * sizeof(B));
        lines[i] = kBias == 8 ? lines[i] | (B)(code == 0x80) : MaxBytes(lines[i], code & 0x7f);
      }
    }
    HAYPILE_UNROLL
    for (int i = 0; i < kLines; ++i) seen = kBias == 8 ? seen | lines[i] : MaxBytes(seen, lines[i]);
    return seen;
  }
  template <typename B>
  static inline bool AnySpecial(B seen) {
    constexpr uint8_t kFirst = kBias == 15 ? 0x7c : kBias == 8 ? 0x80 : 0x7f;
    return AnyByte((B)(seen >= kFirst));
  }
};
using DirectE4m3 = DirectFp8<4, 0x87f00000u, 7>;
using DirectE4m3Fnuz = DirectFp8<4, 0x87f00000u, 8>;
using DirectE5m2 = DirectFp8<3, 0x8fe00000u, 15>;

// Writes the patterns of `count` values (a multiple of 4): for every four, [x0 x0 x2 x2] and [x1 x1 x3 x3] repeated
// over N lanes each, times kBoost. Entry stride `stride` floats from four values to the next.
template <int N>
inline void WritePatterns(const float* values, int count, float* out, int64_t stride) {
  using F = typename Vec<N>::F;
  for (int i = 0; i < count; i += 4, out += stride) {
    const F four = Repeat128<N>(values + i) * Splat<F>(kBoost);
    StoreVec(out, EvenTwice(four));
    StoreVec(out + N, OddTwice(four));
  }
}

// Sums of even and odd lanes to sums in lane order.
template <typename F>
inline F JoinPairs(F even, F odd) {
  return InterleaveLow(even, odd) + InterleaveHigh(even, odd);
}

// Adds products of one 64-byte block: sums[r][p][even, odd] += pattern of row r times codes of part `first` + p.
// patterns: [R][2][N] for the block's four inner elements.
template <int N, typename Direct, int R, int P>
inline __attribute__((always_inline)) void AddFp8Block(const uint8_t* block, int first, const float* patterns,
                                                       typename Vec<N>::F (&sums)[R][P][2]) {
  using F = typename Vec<N>::F;
  const auto add = [&](int p, int byte, F value) __attribute__((always_inline)) {
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) AddProducts(sums[r][p][byte / 2], value, patterns + (2 * r + byte % 2) * N);
  };
  HAYPILE_UNROLL
  for (int p = 0; p < P; ++p) {
    const auto words = LoadVec<typename Vec<N>::U>(block + (first + p) * 4 * N);
    F codes[4];
    Direct::template Decode<N>(words, codes);
    HAYPILE_UNROLL
    for (int byte = 0; byte < 4; ++byte) add(p, byte, codes[byte]);
  }
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_FP8_PRODUCTS_H_
