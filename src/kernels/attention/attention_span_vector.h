// Attention over a span of tokens with N-lane vectors: the one algorithm of the avx2, avx512 and neon units. Included
// only by per-ISA units. Online softmax over blocks of tokens; see attention_span.h for the contract and units.
#ifndef HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_
#define HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_

#include <algorithm>
#include <limits>

#include "kernels/attention/span_keys.h"
#include "kernels/attention/span_values.h"
#if defined(__x86_64__)
#include "kernels/attention/span_amx.h"
#endif

namespace haypile {
namespace {

// Up to kFused rows elements go straight from the tile into the products; above, a tile is decoded once for all.
template <int N, FloatProducts kProducts>
class SpanKernel {
 public:
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;

  explicit SpanKernel(const AttentionSpan& span) : span_(span), tiles_(span), keys_(tiles_), values_(tiles_) {}

  void Run() {
#if defined(__x86_64__)
    if constexpr (kProducts == FloatProducts::kAmx) {
      SpanAmx<kProducts> amx(tiles_);
      const AmxTiles registers(amx.TileRows());
      return RunBlocks([&] { amx.Takes(span_.kv->k_format) ? amx.Score() : Score(); },
                       [&] { amx.Takes(span_.kv->v_format) ? amx.Weigh() : Weigh(); });
    }
#endif
    RunBlocks([this] { Score(); }, [this] { Weigh(); });
  }

 private:
  template <typename ScoreBlock, typename WeighBlock>
  inline __attribute__((always_inline)) void RunBlocks(ScoreBlock score, WeighBlock weigh) {
    for (int64_t begin = tiles_.FirstBlock(); begin < span_.end; begin += tiles_.BlockTokens()) {
      tiles_.EnterBlock(begin);
      score();
      for (int row = 0; row < span_.rows; ++row) SoftmaxRow(row);
      weigh();
    }
  }

  void Score() {
    if (tiles_.Fused()) return ForFusedRows<1>(span_.rows, [&]<int R>() { keys_.template Score<R>(); });
    keys_.Decode();
    keys_.ScoreDecoded();
  }

  void Weigh() {
    if (tiles_.Fused()) return ForFusedRows<1>(span_.rows, [&]<int R>() { values_.template Weigh<R>(); });
    values_.Decode();
    values_.WeighDecoded();
  }

  // Calls visit<rows>() for rows from R to kFused.
  template <int R, typename Visit>
  static void ForFusedRows(int rows, Visit visit) {
    if constexpr (R < SpanTiles<N, kProducts>::kFused) {
      if (rows > R) return ForFusedRows<R + 1>(rows, visit);
    }
    visit.template operator()<R>();
  }

  void MaskRow(int row, float* scores) const {
    const int count = tiles_.tiles * kTileTokens;
    const auto clamp = [&](int64_t token) {
      return static_cast<int>(std::clamp<int64_t>(token - tiles_.begin, 0, count));
    };
    const float minus_infinity = -std::numeric_limits<float>::infinity();
    std::fill(scores, scores + clamp(std::max(span_.row_begin[row], span_.begin)), minus_infinity);
    std::fill(scores + clamp(std::min(span_.row_end[row], tiles_.end)), scores + count, minus_infinity);
  }

  // Turns a row's scores into weights against the new maximum and rescales what the row has gathered.
  void SoftmaxRow(int row) {
    float* scores = tiles_.ScoreRow(row);
    MaskRow(row, scores);
    const int count = tiles_.tiles * kTileTokens;
    F max = Splat<F>(-std::numeric_limits<float>::infinity());
    for (int i = 0; i < count; i += N) {
      const F score = LoadVec<F>(scores + i);
      max = score > max ? score : max;
    }
    const float block_max = MaxLane<N>(max);
    const float new_max = std::max(span_.row_max[row], block_max);
    // Nothing visible yet: weights of zero. NaN scores pass through the sum below.
    const float base = new_max == -std::numeric_limits<float>::infinity() ? 0.0f : new_max;
    F sum = {};
    for (int i = 0; i < count; i += N) {
      const F weight = Exp2<N>(LoadVec<F>(scores + i) - base);
      StoreVec(scores + i, weight);
      sum = sum + weight;
    }
    if (tiles_.Fused()) tiles_.weight_max[row] = Exp2<N>(Splat<F>(block_max - base))[0];
    const F keep = Exp2<N>(Splat<F>(span_.row_max[row] - base));
    span_.row_sum[row] = span_.row_sum[row] * keep[0] + SumLanes<N>(sum);
    if (new_max != span_.row_max[row]) {
      float* weighted = tiles_.WeightedRow(row);
      for (int d = 0; d < span_.kv->head_dim; d += N) StoreVec(weighted + d, LoadVec<F>(weighted + d) * keep);
      span_.row_max[row] = new_max;
    }
  }

  const AttentionSpan& span_;
  SpanTiles<N, kProducts> tiles_;
  SpanKeys<N, kProducts> keys_;
  SpanValues<N, kProducts> values_;
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_
