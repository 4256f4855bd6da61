// Products of queries and of weights with BF16 pairs, two products and their sum in one instruction, for elements that
// BF16 holds exactly: BF16 itself, and 8-bit floats through tables of bytes. Included only by per-ISA units.
//
// The other factor is the sum of BF16 numbers, each rounded to nearest even. Two of them are within 2^-17 of it, and
// queries always have two. Weights of 8-bit floats have one for more than two rows, where arithmetic would be the
// bound: its error, at most 2^-9 of a weight and as often up as down, is a 16th of what the values' own rounding costs.
// Sums are FP32. The instruction takes subnormals for zero: of FP32 and BF16, so below 2^-126; subnormal codes of 8-bit
// floats are normal BF16 numbers.
#ifndef HAYPILE_KERNELS_ATTENTION_BF16_PRODUCTS_H_
#define HAYPILE_KERNELS_ATTENTION_BF16_PRODUCTS_H_

#include "kernels/attention/attention_span.h"
#include "kernels/attention/fp8_tables.h"
#include "kernels/attention/tile_layout.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

// A reader turns a block, as wide as a vector of N = 16, into kPairs vectors: vector p holds in lane n the inner
// elements 2p and 2p + 1.

struct Bf16Pairs {
  static constexpr int kPairs = 1;
  static constexpr int WeightTerms(int) { return 2; }
  template <int N>
  static inline __attribute__((always_inline)) void Read(const uint8_t* block, typename Vec<N>::U (&out)[kPairs]) {
    out[0] = LoadVec<typename Vec<N>::U>(block);
  }
};

template <Fp8Kind kKind>
struct Fp8Pairs {
  static constexpr int kPairs = 2;
  static constexpr int WeightTerms(int rows) { return rows <= 2 ? 2 : 1; }
  template <int N>
  static inline __attribute__((always_inline)) void Read(const uint8_t* block, typename Vec<N>::U (&out)[kPairs]) {
    using B = typename Vec<N>::B;
    B low, high;
    Fp8BytePlanes<kKind>(LoadVec<B>(block), low, high);
    out[0] = (typename Vec<N>::U)UnpackLow(low, high);
    out[1] = (typename Vec<N>::U)UnpackHigh(low, high);
  }
};

// Rows of factors as sums of BF16 numbers.
template <int kTerms, int R, int kCount>
struct Bf16Factors {
  alignas(64) uint16_t terms[kTerms][R][kCount];

  // Rounds `count` values of a row, a multiple of 16.
  template <int N>
  void Set(int row, const float* values, int count) {
    using F = typename Vec<N>::F;
    for (int i = 0; i < count; i += N) {
      F rest = LoadVec<F>(values + i);
      HAYPILE_UNROLL
      for (int term = 0; term < kTerms; ++term) {
        const typename HalfVec<N>::U rounded = RoundToBf16(rest);
        StoreVec(terms[term][row] + i, rounded);
        if (term + 1 < kTerms) rest = rest - LoadBf16<N>(terms[term][row] + i);
      }
    }
  }
};

// Sums in turn for each row and term: as many as pairs of a block where registers last.
template <typename Reader, int kTerms, int R>
constexpr int Bf16Chains() {
  return R * kTerms * Reader::kPairs <= 16 ? Reader::kPairs : 1;
}

// sums[r][term][any] += products of a block with the factors from `first` on.
template <int N, typename Reader, int kTerms, int R, int kCount, int C>
inline __attribute__((always_inline)) void AddBf16Block(const uint8_t* block,
                                                        const Bf16Factors<kTerms, R, kCount>& factors, int first,
                                                        typename Vec<N>::F (&sums)[R][kTerms][C]) {
  typename Vec<N>::U pairs[Reader::kPairs];
  Reader::template Read<N>(block, pairs);
  HAYPILE_UNROLL
  for (int p = 0; p < Reader::kPairs; ++p) {
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) {
      HAYPILE_UNROLL
      for (int term = 0; term < kTerms; ++term) {
        AddBf16Pairs(sums[r][term][p % C], pairs[p], factors.terms[term][r] + first + 2 * p);
      }
    }
  }
}

template <typename F, int R, int kTerms, int C>
inline F SumOf(const F (&sums)[R][kTerms][C], int row) {
  F sum = {};
  HAYPILE_UNROLL
  for (int term = kTerms - 1; term >= 0; --term) {  // the small ones first
    HAYPILE_UNROLL
    for (int c = 0; c < C; ++c) sum = sum + sums[row][term][c];
  }
  return sum;
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_BF16_PRODUCTS_H_
