// Products of many rows with decoded keys or values: the inner loops of prefill. Included only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_DECODED_PRODUCTS_H_
#define HAYPILE_KERNELS_ATTENTION_DECODED_PRODUCTS_H_

#include <cstdint>

#include "kernels/attention/tile_layout.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

// How many rows are taken at once, and blocks of 16 columns: as many sums as registers hold beside the block's values
// and one factor. Every value loaded then serves kRows products and every factor kBlocks * 16 / N.
template <int N>
struct DecodedShape {
  static constexpr int kRows = N == 16 ? 8 : 6;
  static constexpr int kBlocks = N == 16 ? 2 : 1;
};
// The fewest rows of a group: more than kFusedRows rows, shared evenly over groups of up to kRows, leave no fewer.
inline constexpr int kLeastRows = 3;

// sums[r][c] = sum over i < count of rows[r * row_stride + i] * value(i, c), where column c of block b is value i at
// blocks[b * block_stride + i * 16 + c % 16]. FP32, one rounding a product, in the order of i.
template <int N, int R, int T>
inline __attribute__((always_inline)) void SumProducts(const float* rows, int64_t row_stride, const float* blocks,
                                                       int64_t block_stride, int count,
                                                       typename Vec<N>::F (&sums)[R][T * kBlockLanes / N]) {
  using F = typename Vec<N>::F;
  constexpr int kParts = kBlockLanes / N;
  const float* row[R];
  HAYPILE_UNROLL
  for (int r = 0; r < R; ++r) {
    row[r] = rows + r * row_stride;
    HAYPILE_UNROLL
    for (int c = 0; c < T * kParts; ++c) sums[r][c] = F{};
  }
  for (int i = 0; i < count; ++i, blocks += kBlockLanes) {
    F value[T * kParts];
    HAYPILE_UNROLL
    for (int c = 0; c < T * kParts; ++c) value[c] = LoadVec<F>(blocks + c / kParts * block_stride + c % kParts * N);
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) {
      const F factor = Splat<F>(row[r][i]);
      HAYPILE_UNROLL
      for (int c = 0; c < T * kParts; ++c) sums[r][c] = MulAdd(factor, value[c], sums[r][c]);
    }
  }
}

// Calls visit<R>(row), rows row .. row + R - 1, for R = rows, which is kLeast to kMost.
template <int kLeast, int kMost, typename Visit>
inline void VisitRows(int row, int rows, Visit visit) {
  if constexpr (kMost > kLeast) {
    if (rows < kMost) return VisitRows<kLeast, kMost - 1>(row, rows, visit);
  }
  visit.template operator()<kMost>(row);
}

// Calls visit<R>(first row) for all rows, at least kLeastRows, in as few groups as registers allow, of about the same
// size.
template <int N, typename Visit>
inline void ForDecodedRows(int rows, Visit visit) {
  const int groups = (rows + DecodedShape<N>::kRows - 1) / DecodedShape<N>::kRows;
  const int least = rows / groups, with_one_more = rows % groups;
  for (int group = 0, first = 0; group < groups; ++group) {
    const int count = least + (group < with_one_more ? 1 : 0);
    VisitRows<kLeastRows, DecodedShape<N>::kRows>(first, count, visit);
    first += count;
  }
}

// Calls visit<T>(first block) for all blocks of 16 columns.
template <int N, typename Visit>
inline void ForDecodedBlocks(int blocks, Visit visit) {
  constexpr int kMost = DecodedShape<N>::kBlocks;
  int block = 0;
  for (; block + kMost <= blocks; block += kMost) visit.template operator()<kMost>(block);
  if constexpr (kMost > 1) {
    for (; block < blocks; ++block) visit.template operator()<1>(block);
  }
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_DECODED_PRODUCTS_H_
