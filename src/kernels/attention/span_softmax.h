// Scores of a block of tokens to weights, and what the rows have gathered to the new maxima. Included only by per-ISA
// units.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_SOFTMAX_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_SOFTMAX_H_

#include <algorithm>
#include <limits>

#include "kernels/attention/span_tiles.h"

namespace haypile {
namespace {

template <int N, FloatProducts kProducts>
class SpanSoftmax {
 public:
  using F = typename Vec<N>::F;

  explicit SpanSoftmax(SpanTiles<N, kProducts>& tiles) : t_(tiles), span_(tiles.span) {}

  // All rows of the current block. In three passes: one row's maximum, exponentials and sum depend on each other, those
  // of different rows do not, and a row alone is too long for the processor to see the next one.
  void Run() {
    const int count = t_.tiles * kTileTokens;
    for (int row = 0; row < span_.rows; ++row) {
      MaskRow(row);
      block_max_[row] = MaxOf(t_.ScoreRow(row), count);
    }
    for (int row = 0; row < span_.rows; row += N) JoinMaxima(row);
    for (int row = 0; row < span_.rows; ++row) {
      span_.row_sum[row] = span_.row_sum[row] * keep_[row] + Weights(t_.ScoreRow(row), count, base_[row]);
      if (keep_[row] != 1.0f) Rescale(row);
    }
  }

 private:
  static constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  // Vectors of a row taken at once, each with a maximum and a sum of its own.
  static constexpr int kVectors = N < kTileTokens ? 2 : 1;

  // Tokens that the row does not see: none where it sees the whole block.
  void MaskRow(int row) const {
    float* scores = t_.ScoreRow(row);
    const int count = t_.tiles * kTileTokens;
    const int64_t first = std::max(span_.row_begin[row], span_.begin) - t_.begin;
    const int64_t last = std::min(span_.row_end[row], t_.end) - t_.begin;
    if (first > 0) std::fill(scores, scores + std::min<int64_t>(first, count), kMinusInfinity);
    if (last < count) std::fill(scores + std::max<int64_t>(last, 0), scores + count, kMinusInfinity);
  }

  static float MaxOf(const float* scores, int count) {
    F max[kVectors];
    HAYPILE_UNROLL
    for (int v = 0; v < kVectors; ++v) max[v] = Splat<F>(kMinusInfinity);
    for (int i = 0; i < count; i += kVectors * N) {
      HAYPILE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const F score = LoadVec<F>(scores + i + v * N);
        max[v] = score > max[v] ? score : max[v];
      }
    }
    return MaxLane<N>(max[0] > max[kVectors - 1] ? max[0] : max[kVectors - 1]);
  }

  // The new maxima of N rows from `row` on, and what they make of the old ones. Nothing visible yet: weights of zero.
  // NaN scores pass through the sum of weights.
  void JoinMaxima(int row) {
    const int rows = std::min(N, span_.rows - row);
    alignas(64) float old_max[N];
    std::fill(old_max, old_max + N, kMinusInfinity);
    std::copy(span_.row_max + row, span_.row_max + row + rows, old_max);
    const F before = LoadVec<F>(old_max), block = LoadVec<F>(block_max_ + row);
    const F after = block > before ? block : before;
    const F base = after == Splat<F>(kMinusInfinity) ? F{} : after;
    StoreVec(base_ + row, base);
    StoreVec(keep_ + row, after == before ? Splat<F>(1.0f) : Exp2<N>(before - base));
    if (t_.integer_values) StoreVec(t_.weight_max + row, Exp2<N>(block - base));
    StoreVec(old_max, after);
    std::copy(old_max, old_max + rows, span_.row_max + row);
  }

  // Scores to weights; returns their sum.
  static float Weights(float* scores, int count, float base) {
    F sum[kVectors] = {};
    for (int i = 0; i < count; i += kVectors * N) {
      HAYPILE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const F weight = Exp2<N>(LoadVec<F>(scores + i + v * N) - base);
        StoreVec(scores + i + v * N, weight);
        sum[v] = sum[v] + weight;
      }
    }
    return SumLanes<N>(kVectors == 1 ? sum[0] : sum[0] + sum[kVectors - 1]);
  }

  void Rescale(int row) const {
    float* weighted = t_.WeightedRow(row);
    const F keep = Splat<F>(keep_[row]);
    for (int d = 0; d < t_.head_dim; d += N) StoreVec(weighted + d, LoadVec<F>(weighted + d) * keep);
  }

  SpanTiles<N, kProducts>& t_;
  const AttentionSpan& span_;
  alignas(64) float block_max_[kMaxSpanRows] = {}, base_[kMaxSpanRows], keep_[kMaxSpanRows];
  static_assert(kMaxSpanRows % N == 0);
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_SOFTMAX_H_
