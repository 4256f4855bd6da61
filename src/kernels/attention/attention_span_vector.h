// Attention over a span of tokens with N-lane vectors: the one algorithm of the avx2, avx512 and neon units. Included
// only by per-ISA units. Online softmax over blocks of tokens; see attention_span.h for the contract and units.
#ifndef HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_
#define HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_

#include <algorithm>

#include "kernels/attention/span_decoded.h"
#include "kernels/attention/span_keys.h"
#include "kernels/attention/span_softmax.h"
#include "kernels/attention/span_values.h"
#include "kernels/attention/span_widened.h"
#if defined(__x86_64__)
#include "kernels/attention/span_amx.h"
#endif

namespace haypile {
namespace {

// Of few rows elements go straight from the tile into the products; of more, a tile is brought into FP32 or 16-bit
// integers once for all.
template <int N, FloatProducts kProducts>
class SpanKernel {
 public:
  explicit SpanKernel(const AttentionSpan& span)
      : span_(span),
        tiles_(span),
        keys_(tiles_),
        values_(tiles_),
        decoded_(tiles_),
        widened_(tiles_),
        softmax_(tiles_) {}

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
    for (int64_t begin = tiles_.FirstBlock(); begin < span_.end; begin += kBlockTokens) {
      tiles_.EnterBlock(begin);
      score();
      softmax_.Run();
      weigh();
    }
  }

  void Score() {
    if (widened_.Takes(span_.kv->k_format)) return widened_.Score();
    if (!tiles_.InTurns()) return decoded_.Score();
    ForTurns([&]<int R>(int first_row) { keys_.template Score<R>(first_row); });
  }

  void Weigh() {
    if (widened_.Takes(span_.kv->v_format)) return widened_.Weigh();
    if (!tiles_.InTurns()) return decoded_.Weigh();
    ForTurns([&]<int R>(int first_row) { values_.template Weigh<R>(first_row); });
  }

  // Calls visit<rows>(first row) for all rows, kFused at once.
  template <typename Visit>
  void ForTurns(Visit visit) const {
    constexpr int kFused = SpanTiles<N, kProducts>::kFused;
    for (int first = 0; first < span_.rows; first += kFused) {
      VisitRows<1, kFused>(first, std::min(kFused, span_.rows - first), visit);
    }
  }

  const AttentionSpan& span_;
  SpanTiles<N, kProducts> tiles_;
  SpanKeys<N, kProducts> keys_;
  SpanValues<N, kProducts> values_;
  SpanDecoded<N, kProducts> decoded_;
  SpanWidened<N, kProducts> widened_;
  SpanSoftmax<N, kProducts> softmax_;
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_ATTENTION_SPAN_VECTOR_H_
