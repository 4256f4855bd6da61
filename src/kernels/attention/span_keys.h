// Scores of a block of tokens: queries times keys. Included only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_KEYS_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_KEYS_H_

#include <algorithm>
#include <numeric>

#include "kernels/attention/bf16_products.h"
#include "kernels/attention/decoded_products.h"
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

  // Scores of rows 0 .. R-1 of the current block.
  template <int R>
  void Score() {
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
      case KvFormat::kNvfp4:
      case KvFormat::kNvfp4FourOverSix:
        return ScoreInts<NibblePairs<E2m1Integers>, BlockScale::kE4m3, R>();
      case KvFormat::kMxfp4:
        return ScoreInts<NibblePairs<E2m1Integers>, BlockScale::kE8m0, R>();
      case KvFormat::kInt8PerTokenHead:
        return ScoreInts<Int8Pairs, BlockScale::kFp32, R>();
      case KvFormat::kQ8_0:
        return ScoreInts<Int8Pairs, BlockScale::kFp16, R>();
      case KvFormat::kQ4_0:
        return ScoreInts<NibblePairs<Int4Integers>, BlockScale::kFp16, R>();
    }
  }

  // Decodes the block's keys with their scales to [dim][token], a tile after the other, for many rows.
  void Decode() {
    switch (t_.kv.k_format) {
      case KvFormat::kBf16:
        return DecodeTiles<Bf16Decoder>();
      case KvFormat::kFp16:
        return DecodeTiles<Fp16Decoder>();
      case KvFormat::kFp8E4m3:
        return DecodeTiles<E4m3Decoder<false>>();
      case KvFormat::kFp8E4m3Fnuz:
        return DecodeTiles<E4m3Decoder<true>>();
      case KvFormat::kFp8E5m2:
        return DecodeTiles<E5m2Decoder>();
      case KvFormat::kNvfp4:
      case KvFormat::kNvfp4FourOverSix:
      case KvFormat::kMxfp4:
        return DecodeTiles<NibbleDecoder<E2m1Tables>>();
      case KvFormat::kInt8PerTokenHead:
      case KvFormat::kQ8_0:
        return DecodeTiles<Int8Decoder>();
      case KvFormat::kQ4_0:
        return DecodeTiles<NibbleDecoder<Int4Tables>>();
    }
  }

  // Scores of all rows from decoded keys.
  void ScoreDecoded() const {
    const int64_t tile_floats = int64_t{kTileTokens} * t_.head_dim;
    ForDecodedRows<N>(t_.span.rows, [&]<int R>(int row) {
      ForDecodedBlocks<N>(t_.tiles, [&]<int T>(int tile) {
        F sums[R][T * kParts];
        SumProducts<N, R, T>(t_.QueryRow(row), t_.head_dim, t_.span.decoded + tile * tile_floats, tile_floats,
                             t_.head_dim, sums);
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          HAYPILE_UNROLL
          for (int c = 0; c < T * kParts; ++c) {
            StoreVec(t_.ScoreRow(row + r) + tile * kTileTokens + c * N, sums[r][c]);
          }
        }
      });
    });
  }

 private:
  // Sums in registers: R rows, P parts at once, kChains sums in turn to hide the latency of FMA.
  template <int R>
  static constexpr int Parts() {
    return R <= 3 ? kParts : 1;
  }
  template <int R>
  static constexpr int Chains() {
    return R * Parts<R>() <= 4 ? 2 : 1;
  }

  // ---- elements decoded to FP32; for few rows those without block scales ----

  template <typename Decoder>
  void DecodeTiles() {
    for (int tile = 0; tile < t_.tiles; ++tile) {
      for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) t_.PrefetchValues(tile, dim_block);
      const TilePart part_of = t_.KeyPart(tile);
      float* out = t_.span.decoded + int64_t{tile} * kTileTokens * t_.head_dim;
      for (int group = 0; group < t_.ScaleGroups(t_.k_side); ++group) {
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          const F scale = t_.Scales(t_.k_side, part_of.scales, group, part) * Splat<F>(Decoder::kFactor);
          const int first = group * t_.k_side.scale_elements;
          for (int dim = first; dim < first + t_.k_side.scale_elements; dim += Decoder::kInner) {
            const uint8_t* block = part_of.data + int64_t{dim / Decoder::kInner} * kBlockBytes;
            DecodeWhole<N, Decoder>(block, part, [&](int inner, F value) {
              StoreVec(out + int64_t{dim + inner} * kTileTokens + part * N, value * scale);
            });
          }
        }
      }
    }
  }

  // Adds the products of dims [first, last) and parts [first_part, first_part + P) to the sums.
  template <typename Decoder, int R, int P>
  inline __attribute__((always_inline)) void AddFloats(const uint8_t* data, int first_part,
                                                       const float* const (&query)[R], int first, int last,
                                                       F (&sums)[R][P][Chains<R>()]) const {
    for (int dim = first; dim < last; dim += Decoder::kInner) {
      const uint8_t* block = data + int64_t{dim / Decoder::kInner} * kBlockBytes;
      HAYPILE_UNROLL
      for (int p = 0; p < P; ++p) {
        DecodeWhole<N, Decoder>(
            block, first_part + p, [&](int inner, F value) __attribute__((always_inline)) {
              HAYPILE_UNROLL
              for (int r = 0; r < R; ++r) {
                F& sum = sums[r][p][inner % Chains<R>()];
                sum = MulAdd(Splat<F>(query[r][dim + inner]), value, sum);
              }
            });
      }
    }
  }

  template <typename Decoder, int R>
  void ScoreFloats() {
    constexpr int P = Parts<R>();
    const float* query[R];
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) query[r] = t_.QueryRow(r);
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const uint8_t* data = t_.KeyPart(tile).data;
      for (int first = 0; first < kParts; first += P) {
        F sums[R][P][Chains<R>()] = {};
        for (int dim = 0; dim < t_.head_dim; dim += kBlockLanes) {
          if (first == 0) t_.PrefetchValues(tile, dim / kBlockLanes);
          AddFloats<Decoder, R, P>(data, first, query, dim, dim + kBlockLanes, sums);
        }
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            F sum = sums[r][p][0];
            if constexpr (Chains<R>() > 1) sum = sum + sums[r][p][1];
            StoreVec(t_.ScoreRow(r) + tile * kTileTokens + (first + p) * N, sum * Splat<F>(Decoder::kFactor));
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
    constexpr int64_t kQuadFloats = int64_t{2} * R * N;
    float* patterns = t_.span.patterns;
    if (t_.InFirstBlock()) {  // the queries stay the same over a span
      for (int r = 0; r < R; ++r) WritePatterns<N>(t_.QueryRow(r), t_.head_dim, patterns + 2 * r * N, kQuadFloats);
    }
    if (AnySpecial<Direct>()) return ScoreFloats<Decoder, R>();
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const uint8_t* data = t_.KeyPart(tile).data;
      for (int first = 0; first < kParts; first += P) {
        F sums[R][P][2] = {};
        const float* pattern = patterns;
        for (int dim = 0; dim < t_.head_dim; dim += 4, pattern += kQuadFloats) {
          if (first == 0 && dim % kBlockLanes == 0) t_.PrefetchValues(tile, dim / kBlockLanes);
          AddFp8Block<N, Direct, R, P>(data + int64_t{dim / 4} * kBlockBytes, first, pattern, sums);
        }
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            StoreVec(t_.ScoreRow(r) + tile * kTileTokens + (first + p) * N,
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
      for (int r = 0; r < R; ++r) queries.template Set<N>(r, t_.QueryRow(r), t_.head_dim);
    }
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const uint8_t* block = t_.KeyPart(tile).data;
      F sums[R][2][Bf16Chains<Reader, 2, R>()] = {};
      for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
        t_.PrefetchValues(tile, dim_block);
        for (int dim = 0; dim < kBlockLanes; dim += 2 * Reader::kPairs, block += kBlockBytes) {
          AddBf16Block<N, Reader>(block, queries, dim_block * kBlockLanes + dim, sums);
        }
      }
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) StoreVec(t_.ScoreRow(r) + tile * kTileTokens, SumOf(sums, r));
    }
  }

  // ---- small integers ----

  template <typename Reader, BlockScale kScale, int R>
  __attribute__((noinline)) void ScoreInts() {
    constexpr int P = Parts<R>();
    const int group_dims = std::gcd(t_.k_side.scale_elements, Reader::kGroupDims);
    if (t_.InFirstBlock()) RoundQueries<Reader, R>(group_dims);  // the queries stay the same over a span
    const int groups_per_scale = t_.k_side.scale_elements / group_dims;
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const TilePart part_of = t_.KeyPart(tile);
      for (int first = 0; first < kParts; first += P) {
        F totals[R][P] = {};
        for (int group = 0; group * group_dims < t_.head_dim; ++group) {
          const int dim = group * group_dims;
          if (first == 0) {
            for (int d = 0; d < group_dims; d += kBlockLanes) t_.PrefetchValues(tile, (dim + d) / kBlockLanes);
          }
          const int16_t* queries[R];
          I sums[R][P][kIntChains<N>];
          HAYPILE_UNROLL
          for (int r = 0; r < R; ++r) {
            queries[r] = IntegerQuery(r) + dim;
            StartSums<N>(sums, r, starts_[group][r]);
          }
          AddIntBlocks<N, Reader>(part_of.data + int64_t{dim / Reader::kInner} * kBlockBytes,
                                  group_dims / Reader::kInner, first, queries, sums);
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            const F scale = t_.template Scales<kScale>(t_.k_side, part_of.scales, group / groups_per_scale, first + p);
            HAYPILE_UNROLL
            for (int r = 0; r < R; ++r) {
              totals[r][p] = MulAdd(JoinSums<N>(sums[r][p]), scale * Splat<F>(steps_[group][r]), totals[r][p]);
            }
          }
        }
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            StoreVec(t_.ScoreRow(r) + tile * kTileTokens + (first + p) * N, totals[r][p]);
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
        const float* query = t_.QueryRow(r) + group * group_dims;
        const IntegerStep step = IntegerStep::Finest(LargestMagnitude<N>(query, group_dims));
        const int32_t sum = RoundToInt16<N>(group_dims, step.inverse, IntegerQuery(r) + group * group_dims,
                                            [&](int i) { return LoadVec<F>(query + i); });
        steps_[group][r] = Reader::kFactor * step.step;
        starts_[group][r] = -Reader::kOffset * sum;
      }
    }
  }

  const SpanTiles<N, kProducts>& t_;
  float steps_[kMaxSpanHeadDim / 16][kMostFusedRows];
  int32_t starts_[kMaxSpanHeadDim / 16][kMostFusedRows];
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_KEYS_H_
