// Products with elements that are small integers: 4- and 8-bit codes widened to 16 bits, two products of 16 bits and
// their sum in one instruction. Included only by per-ISA units.
//
// The other factor is rounded to 16 bits. Queries have a step of their own for every group of dims: |error| <= max|q in
// group| * 2^-16, about 128 times less than BF16 queries lose. Weights (times the values' block scales) have one for
// every group of dims and block of tokens, a power of two: |error| <= 2^-15 of the largest of them. Elements and sums
// are exact.
#ifndef HAYPILE_KERNELS_ATTENTION_INT_PRODUCTS_H_
#define HAYPILE_KERNELS_ATTENTION_INT_PRODUCTS_H_

#include <algorithm>
#include <cmath>

#include "kernels/attention/attention_span.h"
#include "kernels/attention/tile_layout.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

// A reader turns half `kHalf` of part `part` of a block, four inner elements a lane, into two vectors of 16-bit pairs:
// vector p holds in lane n the inner elements 4 kHalf + 2p and + 2p + 1, as (element / kFactor) + kOffset, which is not
// negative: so widening is an unpack with zeros. Sums are put right by kOffset times the sum of the other factor.
// Sums stay below 2^31: kTop * 32767 * kMostGroupDims, and kTop * 32767 * kBlockTokens, where kTop is the largest
// 16-bit element.

struct Int8Pairs {
  static constexpr int kInner = 4, kOffset = 128, kTop = 255;
  static constexpr float kFactor = 1.0f;
  template <int N, int kHalf>
  static inline __attribute__((always_inline)) void Read(const uint8_t* block, int part, typename Vec<N>::W (&out)[2]) {
    using B = typename Vec<N>::B;
    const B x = LoadVec<B>(block + part * 4 * N) ^ 0x80;
    out[0] = (typename Vec<N>::W)UnpackLow(x, B{});
    out[1] = (typename Vec<N>::W)UnpackHigh(x, B{});
  }
};

// 4-bit codes; Code turns them into bytes.
template <typename Code>
struct NibblePairs {
  static constexpr int kInner = 8, kOffset = Code::kOffset, kTop = Code::kTop;
  static constexpr float kFactor = Code::kFactor;
  template <int N, int kHalf>
  static inline __attribute__((always_inline)) void Read(const uint8_t* block, int part, typename Vec<N>::W (&out)[2]) {
    using B = typename Vec<N>::B;
    using W = typename Vec<N>::W;
    const B codes = LoadVec<B>(block + part * 4 * N);
    const B bytes = Code::ToBytes(kHalf == 0 ? codes & 0x0f : (B)((typename Vec<N>::U)codes >> 4) & 0x0f);
    out[0] = (W)UnpackLow(bytes, B{});
    out[1] = (W)UnpackHigh(bytes, B{});
  }
};

struct E2m1Integers {  // twice the value: 0 1 2 3 4 6 8 12 and their negatives
  static constexpr int kOffset = 12, kTop = 24;
  static constexpr float kFactor = 0.5f;
  static constexpr uint8_t kValues[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  template <typename B>
  static inline B ToBytes(B codes) {
    return Lookup(kValues, codes);
  }
};

struct Int4Integers {
  static constexpr int kOffset = 8, kTop = 15;
  static constexpr float kFactor = 1.0f;
  template <typename B>
  static inline B ToBytes(B codes) {
    return codes;
  }
};

// The most dims of queries that share a step.
inline constexpr int kMostGroupDims = 32;
static_assert(int64_t{Int8Pairs::kTop} * 32767 * std::max(kMostGroupDims, kBlockTokens) < INT32_MAX);

// Calls visit<Reader, scale kind, dims>() for the integers of a format: dims share a step of queries, and a block
// scale.
template <typename Visit>
inline void ForIntegers(KvFormat format, int head_dim, Visit visit) {
  switch (format) {
    case KvFormat::kNvfp4:
    case KvFormat::kNvfp4FourOverSix:
      return visit.template operator()<NibblePairs<E2m1Integers>, BlockScale::kE4m3, 16>();
    case KvFormat::kMxfp4:
      return visit.template operator()<NibblePairs<E2m1Integers>, BlockScale::kE8m0, 32>();
    case KvFormat::kInt8PerTokenHead:
      if (head_dim % 32 != 0) return visit.template operator()<Int8Pairs, BlockScale::kFp32, 16>();
      return visit.template operator()<Int8Pairs, BlockScale::kFp32, 32>();
    case KvFormat::kQ8_0:
      return visit.template operator()<Int8Pairs, BlockScale::kFp16, 32>();
    case KvFormat::kQ4_0:
      return visit.template operator()<NibblePairs<Int4Integers>, BlockScale::kFp16, 32>();
    default:
      break;
  }
}

// Rounds value(i), N of them at a time, times `inverse` to 16 bits, to nearest even, to out[0 .. count - 1], where
// `count` is a multiple of 16; returns the integers' sum, if kSum, or 0. |value * inverse| <= 32767.
template <int N, bool kSum, typename Value>
inline __attribute__((always_inline)) int32_t RoundToInt16(int count, float inverse, int16_t* out, Value value) {
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  const F factor = Splat<F>(inverse);
  I sum = {};
  for (int i = 0; i < count; i += kBlockLanes) {
    HAYPILE_UNROLL
    for (int part = 0; part < kBlockLanes; part += 2 * N) {
      const I first = RoundToInt(value(i + part) * factor);
      if constexpr (kSum) sum = sum + first;
      if constexpr (N < kBlockLanes) {
        const I second = RoundToInt(value(i + part + N) * factor);
        if constexpr (kSum) sum = sum + second;
        StoreVec(out + i + part, Narrow(first, second));
      } else {
        StoreVec(out + i, __builtin_convertvector(first, typename HalfVec<N>::W));
      }
    }
  }
  if constexpr (!kSum) return 0;
  return SumLanes<N>(sum);
}

// The largest magnitude of `count` values, a multiple of 16; NaN if one is NaN.
template <int N>
inline float LargestMagnitude(const float* values, int count) {
  using I = typename Vec<N>::I;
  constexpr int kVectors = N < kBlockLanes ? 2 : 1;
  I largest[kVectors] = {};
  for (int i = 0; i < count; i += kVectors * N) {
    HAYPILE_UNROLL
    for (int v = 0; v < kVectors; ++v) {  // of magnitudes the bits are in order, NaN last
      const I magnitude = LoadVec<I>(values + i + v * N) & 0x7fffffff;
      largest[v] = magnitude > largest[v] ? magnitude : largest[v];
    }
  }
  const I last = largest[kVectors - 1];
  return __builtin_bit_cast(float, MaxLane<N>(largest[0] > last ? largest[0] : last));
}

// value = step * integer. A `largest` that is not finite gives a step of NaN.
struct IntegerStep {
  float step, inverse;

  // As fine as 16 bits allow.
  static IntegerStep Finest(float largest) {
    const float step = largest / 32767 + largest * 0.0f;
    // Below this the reciprocal would overflow: such values are zero to FP32's own precision.
    return {step, step > 1e-37f ? 1.0f / step : 0.0f};
  }
  // A power of two, so that small powers of two lose nothing.
  static IntegerStep PowerOfTwo(float largest) {
    // 2^exponent > largest, and by so much that nothing rounds to 32768. Below 2^-100 whatever there is vanishes beside
    // any other block, and inverse stays finite.
    const uint32_t bits = __builtin_bit_cast(uint32_t, largest) + (1u << 8);
    const int exponent = std::max(static_cast<int>(bits >> 23) - 126, -100);
    return {__builtin_bit_cast(float, static_cast<uint32_t>(exponent - 15 + 127) << 23) + largest * 0.0f,
            __builtin_bit_cast(float, static_cast<uint32_t>(15 - exponent + 127) << 23)};
  }
};

// Sums in turn for each row and part: multiplying and adding in one instruction takes as long as several of them.
template <int N>
inline constexpr int kIntChains = N == 16 ? 2 : 1;

template <int N, int R, int P, int C>
inline __attribute__((always_inline)) void StartSums(typename Vec<N>::I (&sums)[R][P][C], int row, int32_t start) {
  HAYPILE_UNROLL
  for (int p = 0; p < P; ++p) {
    sums[row][p][0] = SplatInt<typename Vec<N>::I>(start);
    HAYPILE_UNROLL
    for (int c = 1; c < C; ++c) sums[row][p][c] = typename Vec<N>::I{};
  }
}

template <int N, int C>
inline __attribute__((always_inline)) typename Vec<N>::I JoinSums(const typename Vec<N>::I (&sums)[C]) {
  typename Vec<N>::I sum = sums[0];
  HAYPILE_UNROLL
  for (int c = 1; c < C; ++c) sum = sum + sums[c];
  return sum;
}

// sums[r][p][any] += products of parts first_part + p of half kHalf of one block with four factors: factors[r] points
// at those of row r.
template <int N, typename Reader, int kHalf, int R, int P, int C>
inline __attribute__((always_inline)) void AddIntHalf(const uint8_t* block, int first_part,
                                                      const int16_t* const (&factors)[R],
                                                      typename Vec<N>::I (&sums)[R][P][C]) {
  using W = typename Vec<N>::W;
  W pairs[P][2];
  HAYPILE_UNROLL
  for (int part = 0; part < P; ++part) Reader::template Read<N, kHalf>(block, first_part + part, pairs[part]);
  HAYPILE_UNROLL
  for (int p = 0; p < 2; ++p) {
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) {
      HAYPILE_UNROLL
      for (int part = 0; part < P; ++part) {
        AddPairs(sums[r][part][p % C], pairs[part][p], factors[r] + 4 * kHalf + 2 * p);
      }
    }
  }
}

// The same for kCount blocks one after the other, factors[r] of the first one.
template <int N, typename Reader, int kCount, int R, int P, int C>
inline __attribute__((always_inline)) void AddIntBlocks(const uint8_t* block, int first_part,
                                                        const int16_t* const (&factors)[R],
                                                        typename Vec<N>::I (&sums)[R][P][C]) {
  const int16_t* at[R];
  HAYPILE_UNROLL
  for (int r = 0; r < R; ++r) at[r] = factors[r];
  HAYPILE_UNROLL_BLOCKS
  for (int i = 0; i < kCount; ++i, block += kBlockBytes) {
    AddIntHalf<N, Reader, 0>(block, first_part, at, sums);
    if constexpr (Reader::kInner == 8) AddIntHalf<N, Reader, 1>(block, first_part, at, sums);
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) at[r] += Reader::kInner;
  }
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_INT_PRODUCTS_H_
