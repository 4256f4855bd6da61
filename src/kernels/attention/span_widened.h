// Scores of a block of tokens and weighted sums of its values for many rows, with integers (int_products.h): keys of 16
// tokens, and values of 16 dims, are widened to 16 bits once for all rows and stay in the first-level cache. Included
// only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_WIDENED_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_WIDENED_H_

#include "kernels/attention/decoded_products.h"
#include "kernels/attention/integer_weights.h"
#include "kernels/attention/span_tiles.h"

namespace haypile {
namespace {

template <int N, FloatProducts kProducts>
class SpanWidened {
 public:
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  using W = typename Vec<N>::W;
  static constexpr int kParts = SpanTiles<N, kProducts>::kParts;

  explicit SpanWidened(const SpanTiles<N, kProducts>& tiles) : t_(tiles) {}

  // Whether products of integers are worth it for elements of this format and the span's rows.
  bool Takes(KvFormat format) const { return N >= 8 && !t_.Fused() && InfoOf(format).block_scale != BlockScale::kNone; }

  // Scores of all rows of the current block.
  void Score() {
    ForIntegers(t_.kv.k_format, t_.head_dim, [&]<typename Reader, BlockScale kScale, int kDims>() {
      if (t_.InFirstBlock()) RoundQueries<Reader>(kDims);  // the queries stay the same over a span
      ForDecodedBlocks<N>(t_.tiles, [&]<int T>(int tile) {
        for (int t = 0; t < T; ++t) {
          WidenKeys<Reader>(tile + t, Elements() + t * KeyIntegers());
          t_.template DecodeScalesOfTile<kScale>(t_.k_side, t_.KeyPart(tile + t).scales,
                                                 key_scale_[0] + t * kTileTokens, kColumns);
        }
        ScoreTiles<T, kDims, kScale != BlockScale::kFp32>(tile);
      });
    });
  }

  // Adds the block's values times the weights of all rows to what the rows have gathered.
  void Weigh() {
    ForIntegers(t_.kv.v_format, t_.head_dim, [&]<typename Reader, BlockScale kScale, int>() {
      t_.template DecodeValueScales<kScale>(ValueScales());
      IntegerWeights<N, kMaxSpanRows, false> weights(t_.span.rows, t_.tiles * kTileTokens, t_.ScoreRow(0),
                                                     t_.weight_max, t_.v_side.scale_groups, ValueScales());
      const int blocks = t_.v_side.scale_elements / kBlockLanes;
      for (int group = 0; group < t_.v_side.scale_groups; ++group) {
        weights.Take(group);
        ForDecodedBlocks<N>(blocks, [&]<int T>(int block) {
          const int dim_block = group * blocks + block;
          for (int t = 0; t < T; ++t) WidenValues<Reader>(dim_block + t, Elements() + t * kValueIntegers);
          WeighDims<T>(dim_block, weights, Reader::kFactor);
        });
      }
    });
  }

 private:
  // Scratch: elements of keys [dim pair][token][2] and of values [token pair][dim][2], and queries [row][dim].
  int16_t* Elements() const { return reinterpret_cast<int16_t*>(t_.span.decoded); }
  int64_t KeyIntegers() const { return int64_t{kTileTokens} * t_.head_dim; }
  static constexpr int64_t kValueIntegers = kBlockTokens * kBlockLanes;
  // Block scales of the values, [group][kBlockTokens], behind the elements.
  float* ValueScales() const { return t_.span.decoded + kBlockTokens * kMaxSpanHeadDim / 2; }
  static_assert(DecodedShape<N>::kBlocks * kTileTokens <= kBlockTokens);
  int16_t* Queries(int row) const {
    return reinterpret_cast<int16_t*>(t_.span.patterns) + int64_t{row} * kMaxSpanHeadDim;
  }
  static_assert(kMaxSpanHeadDim * kMaxSpanRows <= 2 * kPatternFloats);

  // `blocks` blocks of codes to pairs: a vector of 16 lanes for every two inner elements.
  template <typename Reader>
  static void Widen(const uint8_t* block, int blocks, int16_t* to) {
    for (int i = 0; i < blocks; ++i, block += kBlockBytes, to += Reader::kInner * kBlockLanes) {
      HAYPILE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        WidenHalf<Reader, 0>(block, part, to);
        if constexpr (Reader::kInner == 8) WidenHalf<Reader, 1>(block, part, to + 4 * kBlockLanes);
      }
    }
  }
  template <typename Reader, int kHalf>
  static inline void WidenHalf(const uint8_t* block, int part, int16_t* to) {
    W pairs[2];
    Reader::template Read<N, kHalf>(block, part, pairs);
    HAYPILE_UNROLL
    for (int p = 0; p < 2; ++p) StoreVec(to + (2 * p) * kBlockLanes + part * 2 * N, pairs[p] - Reader::kOffset);
  }

  // Sums of `count` pairs of products, R rows times T blocks of 16 columns. kCount: the count where it is small and
  // known, or 0.
  template <int R, int T, int kCount>
  static inline __attribute__((always_inline)) void SumPairs(const int16_t* factors, int64_t stride,
                                                             const int16_t* blocks, int64_t block_stride, int count,
                                                             I (&sums)[R][T * kParts]) {
    const int16_t* row[R];
    HAYPILE_UNROLL
    for (int r = 0; r < R; ++r) {
      row[r] = factors + r * stride;
      HAYPILE_UNROLL
      for (int c = 0; c < T * kParts; ++c) sums[r][c] = I{};
    }
    const auto add = [&](int i) __attribute__((always_inline)) {
      const int16_t* at = blocks + i * 2 * kBlockLanes;
      W pairs[T * kParts];
      HAYPILE_UNROLL
      for (int c = 0; c < T * kParts; ++c) {
        pairs[c] = LoadVec<W>(at + c / kParts * block_stride + c % kParts * 2 * N);
      }
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        HAYPILE_UNROLL
        for (int c = 0; c < T * kParts; ++c) AddPairs(sums[r][c], pairs[c], row[r] + 2 * i);
      }
    };
    if constexpr (kCount > 0) {
      HAYPILE_UNROLL_BLOCKS
      for (int i = 0; i < kCount; ++i) add(i);
    } else {
      for (int i = 0; i < count; ++i) add(i);
    }
  }

  // ---- keys ----

  template <typename Reader>
  void RoundQueries(int group_dims) {
    for (int row = 0; row < t_.span.rows; ++row) {
      for (int dim = 0; dim < t_.head_dim; dim += group_dims) {
        const float* query = t_.QueryRow(row) + dim;
        const IntegerStep step = IntegerStep::Finest(LargestMagnitude<N>(query, group_dims));
        RoundToInt16<N, false>(group_dims, step.inverse, Queries(row) + dim,
                               [&](int i) { return LoadVec<F>(query + i); });
        query_step_[dim / group_dims][row] = Reader::kFactor * step.step;
      }
    }
  }

  template <typename Reader>
  void WidenKeys(int tile, int16_t* to) const {
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) t_.PrefetchValues(tile, dim_block);
    Widen<Reader>(t_.KeyPart(tile).data, t_.head_dim / Reader::kInner, to);
  }

  // Scores of T tiles. kDims: dims of a group; kScaled: every group has a scale, otherwise all have one.
  template <int T, int kDims, bool kScaled>
  void ScoreTiles(int tile) const {
    ForDecodedRows<N>(t_.span.rows, [&]<int R>(int row) {
      float* scores = t_.ScoreRow(row) + tile * kTileTokens;
      const int64_t block_stride = KeyIntegers();
      const int groups = t_.head_dim / kDims;
      const int16_t *queries = Queries(row), *elements = Elements();
      const float *steps = query_step_[0] + row, *scales = key_scale_[0];
      for (int group = 0; group < groups; ++group) {
        I sums[R][T * kParts];
        SumPairs<R, T, kDims / 2>(queries, kMaxSpanHeadDim, elements, block_stride, kDims / 2, sums);
        HAYPILE_UNROLL
        for (int r = 0; r < R; ++r) {
          const F step = Splat<F>(steps[r]);
          HAYPILE_UNROLL
          for (int c = 0; c < T * kParts; ++c) {
            const F factor = LoadVec<F>(scales + c * N) * step;
            const F sum = __builtin_convertvector(sums[r][c], F);
            float* to = scores + r * kBlockTokens + c * N;
            StoreVec(to, group == 0 ? sum * factor : MulAdd(sum, factor, LoadVec<F>(to)));
          }
        }
        queries += kDims;
        elements += kDims * kBlockLanes;
        steps += kMaxSpanRows;
        if constexpr (kScaled) scales += kColumns;
      }
    });
  }

  // ---- values ----

  template <typename Reader>
  void WidenValues(int dim_block, int16_t* to) const {
    constexpr int kBlocks = kTileTokens / Reader::kInner;
    for (int tile = 0; tile < t_.tiles; ++tile, to += kTileTokens * kBlockLanes) {
      t_.PrefetchNextKeys(tile, dim_block);
      Widen<Reader>(t_.ValuePart(tile).data + int64_t{dim_block} * kBlocks * kBlockBytes, kBlocks, to);
    }
  }

  // Dims of T blocks from dim_block on, which are widened; `factor` is that of the elements.
  template <int T, typename Weights>
  void WeighDims(int dim_block, const Weights& weights, float factor) const {
    ForDecodedRows<N>(t_.span.rows, [&]<int R>(int row) {
      I sums[R][T * kParts];
      const int64_t stride = t_.head_dim;
      float* to = t_.WeightedRow(row) + dim_block * kBlockLanes;
      // Tokens past the end have weights of zero.
      SumPairs<R, T, 0>(weights.integers(row), kBlockTokens, Elements(), kValueIntegers, t_.tiles * kTileTokens / 2,
                        sums);
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r, to += stride) {
        const F step = Splat<F>(weights.step(row + r) * factor);
        HAYPILE_UNROLL
        for (int c = 0; c < T * kParts; ++c) {
          StoreVec(to + c * N, MulAdd(__builtin_convertvector(sums[r][c], F), step, LoadVec<F>(to + c * N)));
        }
      }
    });
  }

  const SpanTiles<N, kProducts>& t_;
  static constexpr int kColumns = DecodedShape<N>::kBlocks * kTileTokens;
  float query_step_[kMostScaleGroups][kMaxSpanRows];
  alignas(64) float key_scale_[kMostScaleGroups][kColumns];
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_WIDENED_H_
