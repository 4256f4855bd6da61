// Weighted sums of values over a block of tokens. Included only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_VALUES_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_VALUES_H_

#include "kernels/attention/bf16_products.h"
#include "kernels/attention/decoded_products.h"
#include "kernels/attention/fp8_products.h"
#include "kernels/attention/int_products.h"
#include "kernels/attention/span_tiles.h"

namespace haypile {
namespace {

template <int N, FloatProducts kProducts>
class SpanValues {
 public:
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  using B = typename Vec<N>::B;
  static constexpr int kParts = SpanTiles<N, kProducts>::kParts;
  static constexpr bool kBf16 = kProducts == FloatProducts::kBf16;

  explicit SpanValues(const SpanTiles<N, kProducts>& tiles) : t_(tiles) {}

  // Adds the block's values times the weights of rows 0 .. R-1 to what the rows have gathered.
  template <int R>
  void Weigh() {
    switch (t_.kv.v_format) {
      case KvFormat::kBf16:
        if constexpr (kBf16) {
          return WeighBf16<Bf16Decoder, Bf16Pairs, R>();
        } else {
          return WeighFloats<Bf16Decoder, R>(0);
        }
      case KvFormat::kFp16:
        return WeighFloats<Fp16Decoder, R>(0);
      case KvFormat::kFp8E4m3:
        return WeighEightBits<E4m3Decoder<false>, DirectE4m3, kE4m3Kind, R>();
      case KvFormat::kFp8E4m3Fnuz:
        return WeighEightBits<E4m3Decoder<true>, DirectE4m3Fnuz, kE4m3FnuzKind, R>();
      case KvFormat::kFp8E5m2:
        return WeighEightBits<E5m2Decoder, DirectE5m2, kE5m2Kind, R>();
      case KvFormat::kNvfp4:
      case KvFormat::kNvfp4FourOverSix:
        return WeighInts<NibblePairs<E2m1Integers>, BlockScale::kE4m3, R>();
      case KvFormat::kMxfp4:
        return WeighInts<NibblePairs<E2m1Integers>, BlockScale::kE8m0, R>();
      case KvFormat::kInt8PerTokenHead:
        return WeighInts<Int8Pairs, BlockScale::kFp32, R>();
      case KvFormat::kQ8_0:
        return WeighInts<Int8Pairs, BlockScale::kFp16, R>();
      case KvFormat::kQ4_0:
        return WeighInts<NibblePairs<Int4Integers>, BlockScale::kFp16, R>();
    }
  }

  // Decodes the block's values with their scales to [dim block][token][16 dims], for many rows.
  void Decode() {
    switch (t_.kv.v_format) {
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

  // The same as Weigh for all rows, from decoded values.
  void WeighDecoded() const {
    const int64_t plane = DecodedPlane();
    const int tokens = static_cast<int>(t_.end - t_.begin);  // what lies beyond is stale: not even times zero
    ForDecodedRows<N>(t_.span.rows, [&]<int R>(int row) {
      ForDecodedBlocks<N>(t_.head_dim / kBlockLanes, [&]<int T>(int dim_block) {
        F sums[R][T * kParts];
        SumProducts<N, R, T>(t_.ScoreRow(row), t_.BlockTokens(), t_.span.decoded + dim_block * plane, plane, tokens,
                             sums);
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          float* weighted = t_.WeightedRow(row + r) + dim_block * kBlockLanes;
          HAYPILE_UNROLL
          for (int c = 0; c < T * kParts; ++c) {
            StoreVec(weighted + c * N, LoadVec<F>(weighted + c * N) + sums[r][c]);
          }
        }
      });
    });
  }

 private:
  template <int R>
  static constexpr int Parts() {
    return R <= 3 ? kParts : 1;
  }
  // Parts at once and sums in turn: decoders of many elements leave registers for few sums of one part only.
  template <typename Decoder, int R>
  static constexpr int FloatParts() {
    return Decoder::kInner > 2 ? 1 : Parts<R>();
  }
  template <typename Decoder, int R>
  static constexpr int Chains() {
    if (Decoder::kInner > 2) return R == 1 ? 4 : R == 2 ? 4 : 2;
    return R * Parts<R>() <= 4 ? 2 : 1;
  }

  // Floats of one dim block of all decoded tokens.
  int64_t DecodedPlane() const { return int64_t{t_.tiles} * kTileTokens * kBlockLanes; }

  template <typename Decoder>
  void DecodeTiles() {
    const int64_t plane = DecodedPlane();
    alignas(64) float scale[kTileTokens];
    for (int tile = 0; tile < t_.tiles; ++tile) {
      const TilePart part_of = t_.ValuePart(tile);
      for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
        const int group = dim_block * kBlockLanes / t_.v_side.scale_elements;
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          StoreVec(scale + part * N, t_.Scales(t_.v_side, part_of.scales, group, part) * Splat<F>(Decoder::kFactor));
        }
        float* out = t_.span.decoded + dim_block * plane + int64_t{tile} * kTileTokens * kBlockLanes;
        const uint8_t* data = DimBlock<Decoder>(part_of.data, dim_block);
        t_.PrefetchNextKeys(tile, dim_block);
        for (int token = 0; token < kTileTokens; token += Decoder::kInner) {
          const uint8_t* block = data + int64_t{token / Decoder::kInner} * kBlockBytes;
          HAYPILE_UNROLL
          for (int part = 0; part < kParts; ++part) {
            DecodeWhole<N, Decoder>(block, part, [&](int inner, F value) {
              StoreVec(out + (token + inner) * kBlockLanes + part * N, value * Splat<F>(scale[token + inner]));
            });
          }
        }
      }
    }
  }

  template <typename Decoder>
  static const uint8_t* DimBlock(const uint8_t* data, int dim_block) {
    return data + int64_t{dim_block} * (kTileTokens / Decoder::kInner) * kBlockBytes;
  }

  // Adds one tile's values times weights. kWhole: all 16 tokens; otherwise only the first `tokens`.
  template <typename Decoder, int R, int P, bool kWhole>
  inline __attribute__((always_inline)) void AddFloats(const uint8_t* data, int first_part,
                                                       const float* const (&weight)[R], int tokens,
                                                       F (&sums)[R][P][Chains<Decoder, R>()]) const {
    for (int token = 0; token < (kWhole ? kTileTokens : tokens); token += Decoder::kInner) {
      const uint8_t* block = data + int64_t{token / Decoder::kInner} * kBlockBytes;
      HAYPILE_UNROLL
      for (int p = 0; p < P; ++p) {
        DecodeWhole<N, Decoder>(
            block, first_part + p, [&](int inner, F value) __attribute__((always_inline)) {
              if (!kWhole && token + inner >= tokens) return;
              HAYPILE_UNROLL
              for (int r = 0; r < R; ++r) {
                F& sum = sums[r][p][inner % Chains<Decoder, R>()];
                sum = MulAdd(Splat<F>(weight[r][token + inner]), value, sum);
              }
            });
      }
    }
  }

  // The work of tiles from first_tile on, for elements without block scales.
  template <typename Decoder, int R>
  void WeighFloats(int first_tile) {
    constexpr int P = FloatParts<Decoder, R>();
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
      for (int first_part = 0; first_part < kParts; first_part += P) {
        WeighDimBlock<Decoder, R, P>(dim_block, first_part, first_tile);
      }
    }
  }

  template <typename Decoder, int R, int P>
  void WeighDimBlock(int dim_block, int first_part, int first_tile) {
    constexpr int kChains = Chains<Decoder, R>();
    float* weighted = t_.WeightedRow(0) + dim_block * kBlockLanes + first_part * N;
    F sums[R][P][kChains] = {};
    for (int tile = first_tile; tile < t_.tiles; ++tile) {
      const uint8_t* data = DimBlock<Decoder>(t_.ValuePart(tile).data, dim_block);
      if (first_part == 0) t_.PrefetchNextKeys(tile, dim_block);
      const float* weight[R];
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) weight[r] = t_.ScoreRow(r) + tile * kTileTokens;
      if (tile < t_.WholeTiles()) {
        AddFloats<Decoder, R, P, true>(data, first_part, weight, kTileTokens, sums);
      } else {
        AddFloats<Decoder, R, P, false>(data, first_part, weight, t_.TokensIn(tile), sums);
      }
    }
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) {
      HAYPILE_UNROLL
      for (int p = 0; p < P; ++p) {
        F sum = sums[r][p][0];
        HAYPILE_UNROLL
        for (int chain = 1; chain < kChains; ++chain) sum = sum + sums[r][p][chain];
        float* to = weighted + int64_t{r} * t_.head_dim + p * N;
        StoreVec(to, MulAdd(sum, Splat<F>(Decoder::kFactor), LoadVec<F>(to)));
      }
    }
  }

  // Adds the products of a whole tile's dim block. Unrolled for few rows only: more sums leave no register over.
  template <typename Direct, int R, int P>
  static inline __attribute__((always_inline)) void AddFp8Tile(const uint8_t* data, int first, const float* pattern,
                                                               F (&sums)[R][P][2]) {
    constexpr int kQuads = kTileTokens / 4;
    constexpr int64_t kQuadFloats = int64_t{2} * R * N;
    if constexpr (R <= 2) {
      HAYPILE_UNROLL
      for (int quad = 0; quad < kQuads; ++quad) {
        AddFp8Block<N, Direct, R, P>(data + quad * kBlockBytes, first, pattern + quad * kQuadFloats, sums);
      }
    } else {
      HAYPILE_NO_UNROLL
      for (int quad = 0; quad < kQuads; ++quad) {
        AddFp8Block<N, Direct, R, P>(data + quad * kBlockBytes, first, pattern + quad * kQuadFloats, sums);
      }
    }
  }

  template <typename Decoder, typename Direct, int R>
  void WeighFp8() {
    if constexpr (kProducts != FloatProducts::kDirect) return WeighFloats<Decoder, R>(0);
    constexpr int P = Parts<R>();
    constexpr int64_t kQuadFloats = int64_t{2} * R * N;
    const int whole = t_.WholeTiles();
    if (AnySpecial<Direct>(whole)) return WeighFloats<Decoder, R>(0);
    float* patterns = t_.span.patterns + kKeyPatternFloats;
    for (int r = 0; r < R; ++r) {
      WritePatterns<N>(t_.ScoreRow(r), whole * kTileTokens, patterns + 2 * r * N, kQuadFloats);
    }
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
      for (int first = 0; first < kParts; first += P) {
        F sums[R][P][2] = {};
        const float* pattern = patterns;
        for (int tile = 0; tile < whole; ++tile) {
          const uint8_t* data = DimBlock<Decoder>(t_.ValuePart(tile).data, dim_block);
          if (first == 0) t_.PrefetchNextKeys(tile, dim_block);
          AddFp8Tile<Direct, R, P>(data, first, pattern, sums);
          pattern += kTileTokens / 4 * kQuadFloats;
        }
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            float* to = t_.WeightedRow(r) + dim_block * kBlockLanes + (first + p) * N;
            StoreVec(to, MulAdd(JoinPairs(sums[r][p][0], sums[r][p][1]), Splat<F>(Direct::kRest), LoadVec<F>(to)));
          }
        }
      }
    }
    if (whole < t_.tiles) WeighFloats<Decoder, R>(whole);
  }

  // Whether values of the first `whole` tiles hold a code that Direct must not decode.
  template <typename Direct>
  bool AnySpecial(int whole) const {
    if (!t_.kv.MayHoldSpecialCodes()) return false;
    B seen = {};
    for (int tile = 0; tile < whole; ++tile) {
      seen = Direct::Note(seen, t_.ValuePart(tile).data, int64_t{t_.head_dim} * kTileTokens);
    }
    return Direct::AnySpecial(seen);
  }

  template <typename Decoder, typename Direct, Fp8Kind kKind, int R>
  void WeighEightBits() {
    if constexpr (kBf16) {
      WeighBf16<Decoder, Fp8Pairs<kKind>, R>();
    } else {
      WeighFp8<Decoder, Direct, R>();
    }
  }

  // ---- BF16 pairs ----

  template <typename Decoder, typename Reader, int R>
  __attribute__((noinline)) void WeighBf16() {
    constexpr int kTerms = Reader::WeightTerms(R);
    const int whole = t_.WholeTiles();
    Bf16Factors<kTerms, R, kDecodeBlockTokens> weights;
    for (int r = 0; r < R; ++r) weights.template Set<N>(r, t_.ScoreRow(r), whole * kTileTokens);
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
      F sums[R][kTerms][Bf16Chains<Reader, kTerms, R>()] = {};
      for (int tile = 0; tile < whole; ++tile) {
        const uint8_t* block = DimBlock<Decoder>(t_.ValuePart(tile).data, dim_block);
        t_.PrefetchNextKeys(tile, dim_block);
        HAYPILE_UNROLL
        for (int token = 0; token < kTileTokens; token += 2 * Reader::kPairs, block += kBlockBytes) {
          AddBf16Block<N, Reader>(block, weights, tile * kTileTokens + token, sums);
        }
      }
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        float* to = t_.WeightedRow(r) + dim_block * kBlockLanes;
        StoreVec(to, LoadVec<F>(to) + SumOf(sums, r));
      }
    }
    if (whole < t_.tiles) WeighFloats<Decoder, R>(whole);
  }

  // ---- small integers ----

  // Weights times block scales of one group of dims as integers, for R rows of the current block.
  template <int R>
  struct BlockWeights {
    alignas(64) int16_t integers[R][kDecodeBlockTokens];
    float step[R];
    int32_t sum[R];
  };

  template <typename Reader, BlockScale kScale, int R>
  __attribute__((noinline)) void WeighInts() {
    BlockWeights<R> weights;
    int scaled_group = -1;
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
      const int group = dim_block * kBlockLanes / t_.v_side.scale_elements;
      if (group != scaled_group) RoundWeights<kScale, R>(group, weights);
      scaled_group = group;
      I sums[R][kParts][kIntChains<N>];
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) StartSums<N>(sums, r, -Reader::kOffset * weights.sum[r]);
      for (int tile = 0; tile < t_.tiles; ++tile) {
        t_.PrefetchNextKeys(tile, dim_block);
        const int16_t* rows[R];  // tokens past the end have weights of zero
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) rows[r] = weights.integers[r] + tile * kTileTokens;
        AddIntBlocks<N, Reader>(DimBlock<Reader>(t_.ValuePart(tile).data, dim_block), kTileTokens / Reader::kInner, 0,
                                rows, sums);
      }
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        const F step = Splat<F>(weights.step[r] * Reader::kFactor);
        float* to = t_.WeightedRow(r) + dim_block * kBlockLanes;
        HAYPILE_UNROLL
        for (int p = 0; p < kParts; ++p) {
          StoreVec(to + p * N, MulAdd(JoinSums<N>(sums[r][p]), step, LoadVec<F>(to + p * N)));
        }
      }
    }
  }

  template <BlockScale kScale, int R>
  void RoundWeights(int group, BlockWeights<R>& weights) const {
    alignas(64) float scales[kDecodeBlockTokens];
    const int tokens = t_.tiles * kTileTokens;
    BlockScales<kScale>(group, scales);
    const float largest = LargestMagnitude<N>(scales, tokens);
    for (int r = 0; r < R; ++r) {
      const IntegerStep step = IntegerStep::PowerOfTwo(t_.weight_max[r] * largest);
      const float* row = t_.ScoreRow(r);
      weights.step[r] = step.step;
      weights.sum[r] = RoundToInt16<N>(tokens, step.inverse, weights.integers[r],
                                       [&](int i) { return LoadVec<F>(row + i) * LoadVec<F>(scales + i); });
    }
  }

  // The values' block scales of one group of dims, for the current block; zero for tokens past the end.
  template <BlockScale kScale>
  void BlockScales(int group, float* scales) const {
    for (int tile = 0; tile < t_.tiles; ++tile) {
      HAYPILE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        StoreVec(scales + tile * kTileTokens + part * N,
                 t_.template Scales<kScale>(t_.v_side, t_.ValuePart(tile).scales, group, part));
      }
    }
    std::fill(scales + (t_.end - t_.begin), scales + t_.tiles * kTileTokens, 0.0f);
  }

  const SpanTiles<N, kProducts>& t_;
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_VALUES_H_
