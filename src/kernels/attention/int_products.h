// Products of queries with elements that are small integers: 4- and 8-bit codes widened to 16 bits, two products of 16
// bits and their sum in one instruction. Included only by per-ISA units.
//
// A query is rounded to 16 bits by a step of its own for every group of dims: |error| <= max|q in group| * 2^-16, about
// 128 times less than BF16 queries lose. Elements and sums are exact: a group's sum stays below 2^31.
#ifndef HAYPILE_KERNELS_ATTENTION_INT_PRODUCTS_H_
#define HAYPILE_KERNELS_ATTENTION_INT_PRODUCTS_H_

#include <cmath>

#include "kernels/attention/tile_layout.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

// A reader turns part `part` of a block into kInner/2 vectors of 16-bit pairs: vector p holds in lane n the inner
// elements 2p and 2p+1, times 1/kFactor. kGroupDims: the most dims whose sum of products with 16-bit queries fits.

struct Int8Pairs {
  static constexpr int kInner = 4;
  static constexpr int kGroupDims = 32;
  static constexpr float kFactor = 1.0f;
  template <int N>
  static inline void Read(const uint8_t* block, int part, typename Vec<N>::W* out) {
    using W = typename Vec<N>::W;
    const auto x = LoadVec<typename Vec<N>::B>(block + part * 4 * N);
    out[0] = (W)UnpackLow(x, x) >> 8;
    out[1] = (W)UnpackHigh(x, x) >> 8;
  }
};

// 4-bit codes through a table of bytes, left in the high byte of the 16 bits: 256 times the table's value.
template <typename Table>
struct NibblePairs {
  static constexpr int kInner = 8;
  static constexpr int kGroupDims = Table::kGroupDims;
  static constexpr float kFactor = Table::kFactor / 256;
  template <int N>
  static inline void Read(const uint8_t* block, int part, typename Vec<N>::W* out) {
    using B = typename Vec<N>::B;
    using W = typename Vec<N>::W;
    const B x = LoadVec<B>(block + part * 4 * N);
    const B low = Lookup(Table::kValues, x & 0x0f);
    const B high = Lookup(Table::kValues, x >> 4);
    out[0] = (W)UnpackLow(B{}, low);
    out[1] = (W)UnpackHigh(B{}, low);
    out[2] = (W)UnpackLow(B{}, high);
    out[3] = (W)UnpackHigh(B{}, high);
  }
};

struct E2m1Integers {  // twice the value: 0 1 2 3 4 6 8 12; 12 * 256 * 32767 * 16 < 2^31
  static constexpr int kGroupDims = 16;
  static constexpr float kFactor = 0.5f;
  static constexpr uint8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, 0xff, 0xfe, 0xfd, 0xfc, 0xfa, 0xf8, 0xf4};
};

struct Int4Integers {  // code - 8; 8 * 256 * 32767 * 32 < 2^31
  static constexpr int kGroupDims = 32;
  static constexpr float kFactor = 1.0f;
  static constexpr uint8_t kValues[16] = {0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 0, 1, 2, 3, 4, 5, 6, 7};
};

// Rounds `dims` values to 16 bits by one step, and writes pairs of them, each over N lanes, `stride` 32-bit words
// apart. Returns the step: value = step * integer. Not finite values give a step that is not finite.
template <int N>
inline float WriteIntegerPairs(const float* values, int dims, int32_t* out, int64_t stride) {
  float largest = 0;
  for (int d = 0; d < dims; ++d) largest = std::fabs(values[d]) > largest ? std::fabs(values[d]) : largest;
  float step = largest / 32767;
  for (int d = 0; d < dims; ++d) step += values[d] * 0.0f;  // NaN or Inf anywhere shows
  // Below this the reciprocal would overflow: such queries score zero to FP32's own precision.
  const float inverse = step > 1e-37f ? 1.0f / step : 0.0f;
  const auto rounded = [&](float value) {
    const float scaled = std::nearbyint(value * inverse);
    return static_cast<int32_t>(scaled > 32767 ? 32767 : scaled > -32767 ? scaled : -32767);
  };
  for (int d = 0; d < dims; d += 2, out += stride) {
    const uint32_t pair = static_cast<uint16_t>(rounded(values[d])) |
                          static_cast<uint32_t>(static_cast<uint16_t>(rounded(values[d + 1]))) << 16;
    for (int lane = 0; lane < N; ++lane) out[lane] = static_cast<int32_t>(pair);
  }
  return step;
}

// sums[r] += products of one block's part with the queries' pairs: queries [kInner / 2][R][N].
template <int N, typename Reader, int R>
inline __attribute__((always_inline)) void AddIntBlock(const uint8_t* block, int part, const int32_t* queries,
                                                       typename Vec<N>::I (&sums)[R]) {
  constexpr int kPairs = Reader::kInner / 2;
  typename Vec<N>::W pairs[kPairs];
  Reader::template Read<N>(block, part, pairs);
  HAYPILE_UNROLL
  for (int p = 0; p < kPairs; ++p) {
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) {
      sums[r] = sums[r] + MulPairs(pairs[p], LoadVec<typename Vec<N>::W>(queries + (p * R + r) * N));
    }
  }
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_INT_PRODUCTS_H_
