// Scores of a block of tokens and weighted sums of its values for many rows, in FP32: keys of 16 tokens, and values of
// 16 dims, are decoded with their scales once for all rows and stay in the first-level cache. Included only by per-ISA
// units.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_DECODED_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_DECODED_H_

#include "kernels/attention/decoded_products.h"
#include "kernels/attention/span_tiles.h"

namespace haypile {
namespace {

template <int N, FloatProducts kProducts>
class SpanDecoded {
 public:
  using F = typename Vec<N>::F;
  static constexpr int kParts = SpanTiles<N, kProducts>::kParts;

  explicit SpanDecoded(const SpanTiles<N, kProducts>& tiles) : t_(tiles) {}

  // Scores of all rows, at least kLeastRows, of the current block.
  void Score() {
    ForDecoder(t_.kv.k_format, [&]<typename Decoder>() {
      ForDecodedBlocks<N>(t_.tiles, [&]<int T>(int tile) {
        for (int t = 0; t < T; ++t) DecodeKeys<Decoder>(tile + t, t_.span.decoded + t * KeyFloats());
        ScoreTiles<T>(tile);
      });
    });
  }

  // Adds the block's values times the weights of all rows to what the rows have gathered.
  void Weigh() {
    ForDecoder(t_.kv.v_format, [&]<typename Decoder>() {
      ForDecodedBlocks<N>(t_.head_dim / kBlockLanes, [&]<int T>(int dim_block) {
        for (int t = 0; t < T; ++t) DecodeValues<Decoder>(dim_block + t, t_.span.decoded + t * kValueFloats);
        WeighDims<T>(dim_block);
      });
    });
  }

 private:
  // Calls visit<Decoder>().
  template <typename Visit>
  static void ForDecoder(KvFormat format, Visit visit) {
    switch (format) {
      case KvFormat::kBf16:
        return visit.template operator()<Bf16Decoder>();
      case KvFormat::kFp16:
        return visit.template operator()<Fp16Decoder>();
      case KvFormat::kFp8E4m3:
        return visit.template operator()<E4m3Decoder<false>>();
      case KvFormat::kFp8E4m3Fnuz:
        return visit.template operator()<E4m3Decoder<true>>();
      case KvFormat::kFp8E5m2:
        return visit.template operator()<E5m2Decoder>();
      case KvFormat::kNvfp4:
      case KvFormat::kNvfp4FourOverSix:
      case KvFormat::kMxfp4:
        return visit.template operator()<NibbleDecoder<E2m1Tables>>();
      case KvFormat::kInt8PerTokenHead:
      case KvFormat::kQ8_0:
        return visit.template operator()<Int8Decoder>();
      case KvFormat::kQ4_0:
        return visit.template operator()<NibbleDecoder<Int4Tables>>();
    }
  }

  // Floats of a tile's keys, [dim][token], and of a dim block's values, [token][dim].
  int64_t KeyFloats() const { return int64_t{kTileTokens} * t_.head_dim; }
  static constexpr int64_t kValueFloats = kBlockTokens * kBlockLanes;
  static_assert(DecodedShape<N>::kBlocks * kTileTokens <= kBlockTokens);
  static_assert(DecodedShape<N>::kBlocks * kBlockLanes <= 32);

  template <typename Decoder>
  void DecodeKeys(int tile, float* out) const {
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) t_.PrefetchValues(tile, dim_block);
    const TilePart part_of = t_.KeyPart(tile);
    for (int group = 0; group < t_.k_side.scale_groups; ++group) {
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

  template <int T>
  void ScoreTiles(int tile) const {
    ForDecodedRows<N>(t_.span.rows, [&]<int R>(int row) {
      F sums[R][T * kParts];
      float* scores = t_.ScoreRow(row) + tile * kTileTokens;
      SumProducts<N, R, T>(t_.QueryRow(row), t_.head_dim, t_.span.decoded, KeyFloats(), t_.head_dim, sums);
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r) {
        HAYPILE_UNROLL
        for (int c = 0; c < T * kParts; ++c) StoreVec(scores + r * kBlockTokens + c * N, sums[r][c]);
      }
    });
  }

  template <typename Decoder>
  void DecodeValues(int dim_block, float* out) const {
    const int group = dim_block * kBlockLanes / t_.v_side.scale_elements;
    alignas(64) float scale[kTileTokens];
    for (int tile = 0; tile < t_.tiles; ++tile, out += kTileTokens * kBlockLanes) {
      t_.PrefetchNextKeys(tile, dim_block);
      const TilePart part_of = t_.ValuePart(tile);
      HAYPILE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        StoreVec(scale + part * N, t_.Scales(t_.v_side, part_of.scales, group, part) * Splat<F>(Decoder::kFactor));
      }
      const uint8_t* block = part_of.data + int64_t{dim_block} * (kTileTokens / Decoder::kInner) * kBlockBytes;
      for (int token = 0; token < kTileTokens; token += Decoder::kInner, block += kBlockBytes) {
        HAYPILE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          DecodeWhole<N, Decoder>(block, part, [&](int inner, F value) {
            StoreVec(out + (token + inner) * kBlockLanes + part * N, value * Splat<F>(scale[token + inner]));
          });
        }
      }
    }
  }

  template <int T>
  void WeighDims(int dim_block) const {
    const int tokens = static_cast<int>(t_.end - t_.begin);  // what lies beyond is stale: not even times zero
    ForDecodedRows<N>(t_.span.rows, [&]<int R>(int row) {
      F sums[R][T * kParts];
      const int64_t stride = t_.head_dim;
      float* weighted = t_.WeightedRow(row) + dim_block * kBlockLanes;
      SumProducts<N, R, T>(t_.ScoreRow(row), kBlockTokens, t_.span.decoded, kValueFloats, tokens, sums);
      HAYPILE_UNROLL
      for (int r = 0; r < R; ++r, weighted += stride) {
        HAYPILE_UNROLL
        for (int c = 0; c < T * kParts; ++c) StoreVec(weighted + c * N, LoadVec<F>(weighted + c * N) + sums[r][c]);
      }
    });
  }

  const SpanTiles<N, kProducts>& t_;
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_DECODED_H_
