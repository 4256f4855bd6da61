// Scores of a block of tokens for few rows: queries times keys, which are decoded straight into the products. Included
// only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_KEYS_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_KEYS_H_

#include <algorithm>

#include "kernels/attention/bf16_products.h"
#include "kernels/attention/fp8_products.h"
#include "kernels/attention/int_products.h"
#include "kernels/attention/span_tiles.h"

namespace haypile {
namespace {

template <int N, FloatProducts kProducts>
class SpanKeys {
 public:
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  using B = typename Vec<N>::B;
  static constexpr int kParts = SpanTiles<N, kProducts>::kParts;
  static constexpr bool kBf16 = kProducts == FloatProducts::kBf16;

  explicit SpanKeys(const SpanTiles<N, kProducts>& tiles) : t_(tiles) {}

  // Scores of rows first_row .. first_row + R - 1 of the current block. More than kFused rows come in several calls.
  template <int R>
  void Score(int first_row) {
    first_row_ = first_row;
    switch (t_.kv.k_format) {
      case KvFormat::kBf16:
        if constexpr (kBf16) {
          return ScoreBf16<Bf16Pairs, R>();
        } else {
          return ScoreFloats<Bf16Decoder, R>();
        }
      case KvFormat::kFp16:
        return ScoreFloats<Fp16Decoder, R>();
      case KvFormat::kFp8E4m3:
        return ScoreEightBits<E4m3Decoder<false>, DirectE4m3, kE4m3Kind, R>();
      case KvFormat::kFp8E4m3Fnuz:
        return ScoreEightBits<E4m3Decoder<true>, DirectE4m3Fnuz, kE4m3FnuzKind, R>();
      case KvFormat::kFp8E5m2:
        return ScoreEightBits<E5m2Decoder, DirectE5m2, kE5m2Kind, R>();
      default:
        ForIntegers(t_.kv.k_format, t_.head_dim,
                    [&]<typename Reader, BlockScale kScale, int kDims>() { ScoreInts<Reader, kScale, kDims, R>(); });
    }
  }

 private:
  // Sums in registers: R rows and so many parts at once; of few sums two in turn, to hide the latency of FMA.
  template <int R>
  static constexpr int Parts() {
    return R <= 3 ? kParts : 1;
  }
  // Whether a loop over the block from part `first_part` on asks for what comes next: the first one does.
  bool AsksAhead(int first_part) const { return first_part == 0 && first_row_ == 0; }
  // Where a tile's scores go, from a part of it on; the next row is kBlockTokens further. Asked for before a loop:
  // behind stores the compiler would read all that it is made of again.
  float* ScoresOf(int tile, int first_part) const {
    return t_.ScoreRow(first_row_) + tile * kTileTokens + first_part * N;
  }

  // ---- elements decoded to FP32, without block scales ----

  template <typename Decoder, int R>
  void ScoreFloats() {
    constexpr int P = Decoder::kInner == 2 ? kParts : Parts<R>();
    constexpr int kChains = R * P <= 4 ? 2 : 1;
    const float* query[R];
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) query[r] = t_.QueryRow(first_row_ + r);
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const uint8_t* data = t_.KeyPart(tile).data;
      for (int first = 0; first < kParts; first += P) {
        F sums[R][P][kChains] = {};
        float* scores = ScoresOf(tile, first);
        const uint8_t* block = data;
        for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
          if (AsksAhead(first)) t_.PrefetchValues(tile, dim_block);
          for (int inner = 0; inner < kBlockLanes; inner += Decoder::kInner, block += kBlockBytes) {
            const int dim = dim_block * kBlockLanes + inner;
            AddDecoded<N, Decoder>(
                block, first, [&](int r, int i) { return query[r][dim + i]; }, sums);
          }
        }
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            F sum = sums[r][p][0];
            if constexpr (kChains > 1) sum = sum + sums[r][p][1];
            StoreVec(scores + r * kBlockTokens + p * N, sum * Splat<F>(Decoder::kFactor));
          }
        }
      }
    }
  }

  // ---- 8-bit floats ----

  template <typename Decoder, typename Direct, int R>
  void ScoreFp8() {
    if constexpr (kProducts != FloatProducts::kDirect) return ScoreFloats<Decoder, R>();
    constexpr int P = Parts<R>();
    constexpr int64_t kRowFloats = 2 * N, kQuadFloats = R * kRowFloats;  // for every four dims
    static_assert(SpanTiles<N, kProducts>::kMostInTurns * kRowFloats * kMaxSpanHeadDim / 4 <= kKeyPatternFloats);
    float* patterns = t_.span.patterns + first_row_ * kRowFloats * (t_.head_dim / 4);
    if (t_.InFirstBlock()) {  // the queries stay the same over a span
      for (int r = 0; r < R; ++r)
        WritePatterns<N>(t_.QueryRow(first_row_ + r), t_.head_dim, patterns + 2 * r * N, kQuadFloats);
    }
    if (AnySpecial<Direct>()) return ScoreFloats<Decoder, R>();
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const uint8_t* data = t_.KeyPart(tile).data;
      for (int first = 0; first < kParts; first += P) {
        F sums[R][P][2] = {};
        float* scores = ScoresOf(tile, first);
        const float* pattern = patterns;
        const uint8_t* block = data;
        for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
          if (AsksAhead(first)) t_.PrefetchValues(tile, dim_block);
          HAYPILE_NO_UNROLL
          for (int quad = 0; quad < kBlockLanes / 4; ++quad, block += kBlockBytes, pattern += kQuadFloats) {
            AddFp8Block<N, Direct, R, P>(block, first, pattern, sums);
          }
        }
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            StoreVec(scores + r * kBlockTokens + p * N,
                     JoinPairs(sums[r][p][0], sums[r][p][1]) * Splat<F>(Direct::kRest));
          }
        }
      }
    }
  }

  // Whether the block's keys hold a code that Direct must not decode.
  template <typename Direct>
  bool AnySpecial() const {
    if (!t_.kv.MayHoldSpecialCodes()) return false;
    B seen = {};
    for (int tile = 0; tile < t_.tiles; ++tile) {
      seen = Direct::Note(seen, t_.KeyPart(tile).data, int64_t{t_.head_dim} * kTileTokens);
    }
    return Direct::AnySpecial(seen);
  }

  template <typename Decoder, typename Direct, Fp8Kind kKind, int R>
  void ScoreEightBits() {
    if constexpr (kBf16) {
      ScoreBf16<Fp8Pairs<kKind>, R>();
    } else {
      ScoreFp8<Decoder, Direct, R>();
    }
  }

  // ---- BF16 pairs ----

  template <typename Reader, int R>
  __attribute__((noinline)) void ScoreBf16() {
    using Queries = Bf16Factors<2, R, kMaxSpanHeadDim>;
    static_assert(sizeof(Queries) <= kKeyPatternFloats * sizeof(float));
    Queries& queries = *reinterpret_cast<Queries*>(t_.span.patterns);
    if (t_.InFirstBlock()) {  // the queries stay the same over a span
      for (int r = 0; r < R; ++r) queries.template Set<N>(r, t_.QueryRow(first_row_ + r), t_.head_dim);
    }
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const uint8_t* block = t_.KeyPart(tile).data;
      F sums[R][2][Bf16Chains<Reader, 2, R>()] = {};
      float* scores = ScoresOf(tile, 0);
      for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
        t_.PrefetchValues(tile, dim_block);
        for (int dim = 0; dim < kBlockLanes; dim += 2 * Reader::kPairs, block += kBlockBytes) {
          AddBf16Block<N, Reader>(block, queries, dim_block * kBlockLanes + dim, sums);
        }
      }
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) StoreVec(scores + r * kBlockTokens, SumOf(sums, r));
    }
  }

  // ---- small integers ----

  template <typename Reader, BlockScale kScale, int kDims, int R>
  __attribute__((noinline)) void ScoreInts() {
    constexpr int P = Parts<R>();
    if (t_.InFirstBlock()) RoundQueries<Reader, R>(kDims);  // the queries stay the same over a span
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const TilePart part_of = t_.KeyPart(tile);
      t_.template DecodeScalesOfTile<kScale>(t_.k_side, part_of.scales, scales_[0], kTileTokens);
      for (int first = 0; first < kParts; first += P) {
        F totals[R][P] = {};
        float* scores = ScoresOf(tile, first);
        const uint8_t* block = part_of.data;
        for (int group = 0; group * kDims < t_.head_dim; ++group, block += kDims / Reader::kInner * kBlockBytes) {
          if (first == 0) {
            HAYPILE_UNROLL
            for (int d = 0; d < kDims; d += kBlockLanes) t_.PrefetchValues(tile, (group * kDims + d) / kBlockLanes);
          }
          const int16_t* queries[R];
          I sums[R][P][kIntChains<N>];
          HAYPILE_UNROLL
          for (int r = 0; r < R; ++r) {
            queries[r] = IntegerQuery(r) + group * kDims;
            StartSums<N>(sums, r, starts_[group][r]);
          }
          AddIntBlocks<N, Reader, kDims / Reader::kInner>(block, first, queries, sums);
          const float* scales = scales_[kScale == BlockScale::kFp32 ? 0 : group];
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            const F scale = LoadVec<F>(scales + (first + p) * N);
            HAYPILE_UNROLL
            for (int r = 0; r < R; ++r) {
              const F sum = __builtin_convertvector(JoinSums<N>(sums[r][p]), F);
              totals[r][p] = MulAdd(sum, scale * Splat<F>(steps_[group][r]), totals[r][p]);
            }
          }
        }
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            StoreVec(scores + r * kBlockTokens + p * N, totals[r][p]);
          }
        }
      }
    }
  }

  int16_t* IntegerQuery(int row) const {
    return reinterpret_cast<int16_t*>(t_.span.patterns) + int64_t{row} * kMaxSpanHeadDim;
  }

  // Queries as integers, with the steps of their groups of dims and what sums of products start from.
  template <typename Reader, int R>
  void RoundQueries(int group_dims) {
    for (int r = 0; r < R; ++r) {
      for (int group = 0; group * group_dims < t_.head_dim; ++group) {
        const float* query = t_.QueryRow(first_row_ + r) + group * group_dims;
        const IntegerStep step = IntegerStep::Finest(LargestMagnitude<N>(query, group_dims));
        const int32_t sum = RoundToInt16<N, true>(group_dims, step.inverse, IntegerQuery(r) + group * group_dims,
                                                  [&](int i) { return LoadVec<F>(query + i); });
        steps_[group][r] = Reader::kFactor * step.step;
        starts_[group][r] = -Reader::kOffset * sum;
      }
    }
  }

  const SpanTiles<N, kProducts>& t_;
  int first_row_ = 0;
  float steps_[kMostScaleGroups][kMostFusedRows];
  int32_t starts_[kMostScaleGroups][kMostFusedRows];
  alignas(64) float scales_[kMostScaleGroups][kTileTokens];
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_KEYS_H_
