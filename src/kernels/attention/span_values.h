// Weighted sums of values over a block of tokens for few rows: values are decoded straight into the products. Included
// only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_VALUES_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_VALUES_H_

#include "kernels/attention/bf16_products.h"
#include "kernels/attention/fp8_products.h"
#include "kernels/attention/integer_weights.h"
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

  // Adds the block's values times the weights of rows first_row .. first_row + R - 1 to what the rows have gathered.
  template <int R>
  void Weigh(int first_row) {
    first_row_ = first_row;
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
      default:
        ForIntegers(t_.kv.v_format, t_.head_dim,
                    [&]<typename Reader, BlockScale kScale, int>() { WeighInts<Reader, kScale, R>(); });
    }
  }

 private:
  template <int R>
  static constexpr int Parts() {
    return R <= 3 ? kParts : 1;
  }
  // Whether a loop over the block from part `first_part` on asks for what comes next: the first one does.
  bool AsksAhead(int first_part) const { return first_part == 0 && first_row_ == 0; }
  // Where the sums of 16 dims go, from a part of them on; the next row is head_dim further. Asked for before a loop:
  // behind stores the compiler would read all that it is made of again.
  float* WeightedOf(int dim_block, int first_part) const {
    return t_.WeightedRow(first_row_) + dim_block * kBlockLanes + first_part * N;
  }
  // Parts at once and sums in turn: decoders of many elements leave registers for few sums of one part only.
  template <typename Decoder>
  static constexpr int FloatParts() {
    return Decoder::kInner > 2 ? 1 : kParts;
  }
  template <typename Decoder, int R>
  static constexpr int Chains() {
    if (Decoder::kInner > 2) return R == 1 ? 4 : R == 2 ? 4 : 2;
    return R * kParts <= 4 ? 2 : 1;
  }

  template <typename Decoder>
  static const uint8_t* DimBlock(const uint8_t* data, int dim_block) {
    return data + int64_t{dim_block} * (kTileTokens / Decoder::kInner) * kBlockBytes;
  }

  // Adds one tile's values times weights. kWhole: all 16 tokens; otherwise only the first `tokens`: what lies beyond is
  // stale, and a weight of zero would not silence it.
  template <typename Decoder, int R, int P, bool kWhole, int C>
  inline __attribute__((always_inline)) void AddFloats(const uint8_t* block, int first_part,
                                                       const float* const (&weight)[R], int tokens,
                                                       F (&sums)[R][P][C]) const {
    for (int token = 0; token < (kWhole ? kTileTokens : tokens); token += Decoder::kInner, block += kBlockBytes) {
      if (kWhole || token + Decoder::kInner <= tokens) {
        AddDecoded<N, Decoder>(
            block, first_part, [&](int r, int inner) { return weight[r][token + inner]; }, sums);
        continue;
      }
      HAYPILE_UNROLL
      for (int p = 0; p < P; ++p) {
        DecodeWhole<N, Decoder>(
            block, first_part + p, [&](int inner, F value) __attribute__((always_inline)) {
              if (token + inner >= tokens) return;
              HAYPILE_UNROLL
              for (int r = 0; r < R; ++r) {
                F& sum = sums[r][p][inner % C];
                sum = MulAdd(Splat<F>(weight[r][token + inner]), value, sum);
              }
            });
      }
    }
  }

  // The work of tiles from first_tile on, for elements without block scales.
  template <typename Decoder, int R>
  void WeighFloats(int first_tile) {
    constexpr int P = FloatParts<Decoder>();
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
      for (int first_part = 0; first_part < kParts; first_part += P) {
        WeighDimBlock<Decoder, R, P>(dim_block, first_part, first_tile);
      }
    }
  }

  template <typename Decoder, int R, int P>
  void WeighDimBlock(int dim_block, int first_part, int first_tile) {
    constexpr int kChains = Chains<Decoder, R>();
    float* to = WeightedOf(dim_block, first_part);
    const int64_t stride = t_.head_dim;
    F sums[R][P][kChains] = {};
    for (int tile = first_tile; tile < t_.tiles; ++tile) {
      const uint8_t* data = DimBlock<Decoder>(t_.ValuePart(tile).data, dim_block);
      if (AsksAhead(first_part)) t_.PrefetchNextKeys(tile, dim_block);
      const float* weight[R];
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) weight[r] = t_.ScoreRow(first_row_ + r) + tile * kTileTokens;
      if (tile < t_.WholeTiles()) {
        AddFloats<Decoder, R, P, true>(data, first_part, weight, kTileTokens, sums);
      } else {
        AddFloats<Decoder, R, P, false>(data, first_part, weight, t_.TokensIn(tile), sums);
      }
    }
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r, to += stride) {
      HAYPILE_UNROLL
      for (int p = 0; p < P; ++p) {
        F sum = sums[r][p][0];
        HAYPILE_UNROLL
        for (int chain = 1; chain < kChains; ++chain) sum = sum + sums[r][p][chain];
        StoreVec(to + p * N, MulAdd(sum, Splat<F>(Decoder::kFactor), LoadVec<F>(to + p * N)));
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
    const int64_t stride = t_.head_dim;
    const int whole = t_.WholeTiles();
    if (AnySpecial<Direct>(whole)) return WeighFloats<Decoder, R>(0);
    float* patterns = t_.span.patterns + kKeyPatternFloats;
    for (int r = 0; r < R; ++r) {
      WritePatterns<N>(t_.ScoreRow(first_row_ + r), whole * kTileTokens, patterns + 2 * r * N, kQuadFloats);
    }
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
      for (int first = 0; first < kParts; first += P) {
        F sums[R][P][2] = {};
        float* to = WeightedOf(dim_block, first);
        const float* pattern = patterns;
        for (int tile = 0; tile < whole; ++tile) {
          const uint8_t* data = DimBlock<Decoder>(t_.ValuePart(tile).data, dim_block);
          if (AsksAhead(first)) t_.PrefetchNextKeys(tile, dim_block);
          AddFp8Tile<Direct, R, P>(data, first, pattern, sums);
          pattern += kTileTokens / 4 * kQuadFloats;
        }
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r, to += stride) {
          HAYPILE_UNROLL
          for (int p = 0; p < P; ++p) {
            const F sum = JoinPairs(sums[r][p][0], sums[r][p][1]);
            StoreVec(to + p * N, MulAdd(sum, Splat<F>(Direct::kRest), LoadVec<F>(to + p * N)));
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
    const int64_t stride = t_.head_dim;
    const int whole = t_.WholeTiles();
    Bf16Factors<kTerms, R, kBlockTokens> weights;
    for (int r = 0; r < R; ++r) weights.template Set<N>(r, t_.ScoreRow(first_row_ + r), whole * kTileTokens);
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) {
      F sums[R][kTerms][Bf16Chains<Reader, kTerms, R>()] = {};
      float* to = WeightedOf(dim_block, 0);
      for (int tile = 0; tile < whole; ++tile) {
        const uint8_t* block = DimBlock<Decoder>(t_.ValuePart(tile).data, dim_block);
        t_.PrefetchNextKeys(tile, dim_block);
        HAYPILE_UNROLL
        for (int token = 0; token < kTileTokens; token += 2 * Reader::kPairs, block += kBlockBytes) {
          AddBf16Block<N, Reader>(block, weights, tile * kTileTokens + token, sums);
        }
      }
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r, to += stride) StoreVec(to, LoadVec<F>(to) + SumOf(sums, r));
    }
    if (whole < t_.tiles) WeighFloats<Decoder, R>(whole);
  }

  // ---- small integers ----

  template <typename Reader, BlockScale kScale, int R>
  __attribute__((noinline)) void WeighInts() {
    t_.template DecodeValueScales<kScale>(t_.span.decoded);
    IntegerWeights<N, R, true> weights(R, t_.tiles * kTileTokens, t_.ScoreRow(first_row_), t_.weight_max + first_row_,
                                       t_.v_side.scale_groups, t_.span.decoded);
    const int blocks_of_group = t_.v_side.scale_elements / kBlockLanes;
    for (int group = 0, dim_block = 0; group < t_.v_side.scale_groups; ++group) {
      weights.Take(group);
      for (const int end = dim_block + blocks_of_group; dim_block < end; ++dim_block) {
        WeighIntBlock<Reader, R>(dim_block, weights);
      }
    }
  }

  template <typename Reader, int R, typename Weights>
  inline __attribute__((always_inline)) void WeighIntBlock(int dim_block, const Weights& weights) const {
    I sums[R][kParts][kIntChains<N>] = {};
    float* to = WeightedOf(dim_block, 0);
    const int64_t stride = t_.head_dim;
    for (int tile = 0; tile < t_.tiles; ++tile) {
      t_.PrefetchNextKeys(tile, dim_block);
      const int16_t* rows[R];  // tokens past the end have weights of zero
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) rows[r] = weights.integers(r) + tile * kTileTokens;
      AddIntBlocks<N, Reader, kTileTokens / Reader::kInner>(DimBlock<Reader>(t_.ValuePart(tile).data, dim_block), 0,
                                                            rows, sums);
    }
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r, to += stride) {
      const F step = Splat<F>(weights.step(r) * Reader::kFactor);
      const I too_much = SplatInt<I>(Reader::kOffset * weights.sum(r));
      HAYPILE_UNROLL
      for (int p = 0; p < kParts; ++p) {
        const F sum = __builtin_convertvector(JoinSums<N>(sums[r][p]) - too_much, F);
        StoreVec(to + p * N, MulAdd(sum, step, LoadVec<F>(to + p * N)));
      }
    }
  }

  const SpanTiles<N, kProducts>& t_;
  int first_row_ = 0;
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_VALUES_H_
