// Scores of a block of tokens and weighted sums of its values in tile registers (amx_products.h). Included only by
// per-ISA units.
//
// Keys and values are brought into chunks of BF16 pairs: BF16 and 8-bit floats as they are, all others with their block
// scales, as a BF16 number and what rounding leaves of it, so that products lose no more than FP32's would hide.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_AMX_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_AMX_H_

#include <algorithm>
#include <cstring>

#include "kernels/attention/amx_products.h"
#include "kernels/attention/bf16_products.h"
#include "kernels/attention/span_tiles.h"

namespace haypile {
namespace {

template <FloatProducts kProducts>
class SpanAmx {
 public:
  static constexpr int N = 16;
  using F = Vec<N>::F;
  using U = Vec<N>::U;

  explicit SpanAmx(const SpanTiles<N, kProducts>& tiles)
      : t_(tiles),
        query_chunks_((t_.head_dim + kChunkInner - 1) / kChunkInner),
        memory_(reinterpret_cast<uint8_t*>(t_.span.patterns)),
        queries_(memory_, t_.span.rows, query_chunks_),
        weights_(memory_ + kAmxQueryBytes, t_.span.rows, kWeightChunks),
        second_(reinterpret_cast<uint8_t*>(t_.span.decoded)) {}

  // Rows of a tile of the first factor.
  int TileRows() const { return 2 * queries_.GroupRows(); }

  // Whether keys or values of a format are worth it: with few rows only those that need no block scales, which the
  // products of integers take along at less cost.
  bool Takes(KvFormat format) const {
    const KvFormatInfo& info = InfoOf(format);
    return !t_.Fused() || format == KvFormat::kBf16 ||
           (info.element_bits == 8 && info.block_scale == BlockScale::kNone);
  }

  void Score() {
    if (t_.InFirstBlock()) {  // the queries stay the same over a span
      for (int row = 0; row < t_.span.rows; ++row) queries_.Set(row, t_.QueryRow(row), t_.head_dim);
    }
    ForFormat(
        t_.kv.k_format,
        [&]<typename Reader>() { ScoreTiles(1, [&](int tile, uint8_t* to) { ReadKeys<Reader>(tile, to); }); },
        [&]<typename Decoder>() { ScoreTiles(2, [&](int tile, uint8_t* to) { SplitKeys<Decoder>(tile, to); }); });
  }

  void Weigh() {
    for (int row = 0; row < t_.span.rows; ++row) weights_.Set(row, t_.ScoreRow(row), t_.tiles * kTileTokens);
    ForFormat(
        t_.kv.v_format,
        [&]<typename Reader>() {
          WeighDims(1, [&](int tile, int dim_block, uint8_t* to) { ReadValues<Reader>(tile, dim_block, to); });
        },
        [&]<typename Decoder>() {
          WeighDims(2, [&](int tile, int dim_block, uint8_t* to) { SplitValues<Decoder>(tile, dim_block, to); });
        });
  }

 private:
  static constexpr int kWeightChunks = kBlockTokens / kChunkInner;
  static_assert(AmxRows::Bytes(kMaxSpanRows, kMaxSpanHeadDim / kChunkInner) <= kAmxQueryBytes);
  static_assert(AmxRows::Bytes(kMaxSpanRows, kWeightChunks) <= kAmxWeightBytes);
  static_assert(2 * 2 * kMaxSpanHeadDim / 2 * kBlockBytes <= kBlockTokens * kMaxSpanHeadDim * 4);
  static constexpr int kHalfChunkBytes = kChunkBytes / 2;  // 16 dims of keys or tokens of values

  // Calls exact<Reader>() or scaled<Decoder>().
  template <typename Exact, typename Scaled>
  static void ForFormat(KvFormat format, Exact exact, Scaled scaled) {
    switch (format) {
      case KvFormat::kBf16:
        return exact.template operator()<Bf16Pairs>();
      case KvFormat::kFp8E4m3:
        return exact.template operator()<Fp8Pairs<kE4m3Kind>>();
      case KvFormat::kFp8E4m3Fnuz:
        return exact.template operator()<Fp8Pairs<kE4m3FnuzKind>>();
      case KvFormat::kFp8E5m2:
        return exact.template operator()<Fp8Pairs<kE5m2Kind>>();
      case KvFormat::kFp16:
        return scaled.template operator()<Fp16Decoder>();
      case KvFormat::kNvfp4:
      case KvFormat::kNvfp4FourOverSix:
      case KvFormat::kMxfp4:
        return scaled.template operator()<NibbleDecoder<E2m1Tables>>();
      case KvFormat::kInt8PerTokenHead:
      case KvFormat::kQ8_0:
        return scaled.template operator()<Int8Decoder>();
      case KvFormat::kQ4_0:
        return scaled.template operator()<NibbleDecoder<Int4Tables>>();
    }
  }

  int Groups() const { return (t_.span.rows + AmxRows::kGroupRows - 1) / AmxRows::kGroupRows; }

  // The second factor stands in up to two columns, each with up to two terms of `room` chunks.
  int64_t TermStride(int room) const { return int64_t{room} * kChunkBytes; }
  uint8_t* Column(int column, int room) const { return second_ + 2 * column * TermStride(room); }

  // Multiplies all groups of `rows` with the first `chunks` chunks of the columns, and gives what comes out to
  // emit(row, column, F).
  template <typename Emit>
  void MultiplyAll(const AmxRows& rows, int columns, int chunks, int terms, int room, Emit emit) const {
    for (int group = 0; group < Groups(); group += 2) {
      const bool two = group + 1 < Groups();
      if (columns == 2 && two) MultiplyGroups<2, 2>(rows, group, chunks, terms, room, emit);
      if (columns == 2 && !two) MultiplyGroups<1, 2>(rows, group, chunks, terms, room, emit);
      if (columns == 1 && two) MultiplyGroups<2, 1>(rows, group, chunks, terms, room, emit);
      if (columns == 1 && !two) MultiplyGroups<1, 1>(rows, group, chunks, terms, room, emit);
    }
  }

  template <int M, int T, typename Emit>
  void MultiplyGroups(const AmxRows& rows, int group, int chunks, int terms, int room, Emit emit) const {
    const uint8_t* first[M];
    const uint8_t* second[T];
    for (int m = 0; m < M; ++m) first[m] = rows.Group(group + m);
    for (int t = 0; t < T; ++t) second[t] = Column(t, room);
    AmxSums sums[M][T];
    MultiplyChunks<M, T>(first, second, chunks, terms, TermStride(room), sums);
    for (int m = 0; m < M; ++m) {
      const int first_row = (group + m) * AmxRows::kGroupRows;
      const int count = std::min(AmxRows::kGroupRows, t_.span.rows - first_row);
      for (int t = 0; t < T; ++t) {
        for (int row = 0; row < count; ++row) {
          const F rest = LoadVec<F>(sums[m][t].of[rows.GroupRows() + row]);
          emit(first_row + row, t, LoadVec<F>(sums[m][t].of[row]) + rest);
        }
      }
    }
  }

  // ---- keys: chunks of 32 dims times 16 tokens ----

  template <typename Decode>
  void ScoreTiles(int terms, Decode decode) const {
    const int64_t used = int64_t{t_.head_dim} / 2 * kBlockBytes;
    for (int tile = 0; tile < t_.tiles; tile += 2) {
      const int columns = std::min(2, t_.tiles - tile);
      for (int c = 0; c < columns; ++c) {
        uint8_t* to = Column(c, query_chunks_);
        decode(tile + c, to);
        for (int term = 0; term < terms; ++term, to += TermStride(query_chunks_)) {
          std::memset(to + used, 0, static_cast<size_t>(TermStride(query_chunks_) - used));
        }
      }
      MultiplyAll(queries_, columns, query_chunks_, terms, query_chunks_,
                  [&](int row, int c, F score) { StoreVec(t_.ScoreRow(row) + (tile + c) * kTileTokens, score); });
    }
  }

  // 16 inner numbers (dims of keys, tokens of values) times 16 columns: blocks one after the other, to 8 rows of pairs.
  template <typename Reader>
  static void ReadSixteen(const uint8_t* block, uint8_t* to) {
    HAYPILE_UNROLL
    for (int inner = 0; inner < kBlockLanes; inner += 2 * Reader::kPairs, block += kBlockBytes) {
      U pairs[Reader::kPairs];
      Reader::template Read<N>(block, pairs);
      HAYPILE_UNROLL
      for (int p = 0; p < Reader::kPairs; ++p, to += kBlockBytes) StoreVec(to, pairs[p]);
    }
  }
  template <typename Reader>
  static const uint8_t* Sixteen(const uint8_t* data, int index) {
    return data + int64_t{index} * (kBlockLanes / (2 * Reader::kPairs)) * kBlockBytes;
  }

  template <typename Reader>
  void ReadKeys(int tile, uint8_t* to) const {
    const uint8_t* data = t_.KeyPart(tile).data;
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block, to += kHalfChunkBytes) {
      t_.PrefetchValues(tile, dim_block);
      ReadSixteen<Reader>(Sixteen<Reader>(data, dim_block), to);
    }
  }

  template <typename Decoder>
  void SplitKeys(int tile, uint8_t* high) const {
    uint8_t* low = high + TermStride(query_chunks_);
    const TilePart part_of = t_.KeyPart(tile);
    for (int dim_block = 0; dim_block * kBlockLanes < t_.head_dim; ++dim_block) t_.PrefetchValues(tile, dim_block);
    for (int group = 0; group < t_.k_side.scale_groups; ++group) {
      const F scale = t_.Scales(t_.k_side, part_of.scales, group, 0) * Splat<F>(Decoder::kFactor);
      const int first = group * t_.k_side.scale_elements;
      for (int dim = first; dim < first + t_.k_side.scale_elements; dim += Decoder::kInner) {
        F values[Decoder::kInner];
        DecodeWhole<N, Decoder>(part_of.data + int64_t{dim / Decoder::kInner} * kBlockBytes, 0,
                                [&](int inner, F value) { values[inner] = value * scale; });
        StoreSplit<Decoder::kInner>(values, dim / 2, high, low);
      }
    }
  }

  // Numbers 2p and 2p + 1 as row first_row + p of both terms.
  template <int kCount>
  static void StoreSplit(const F (&values)[kCount], int first_row, uint8_t* high, uint8_t* low) {
    HAYPILE_UNROLL
    for (int p = 0; p < kCount / 2; ++p) {
      U high_pairs, low_pairs;
      SplitPairs(values[2 * p], values[2 * p + 1], high_pairs, low_pairs);
      StoreVec(high + (first_row + p) * kBlockBytes, high_pairs);
      StoreVec(low + (first_row + p) * kBlockBytes, low_pairs);
    }
  }

  // ---- values: chunks of 32 tokens times 16 dims ----

  template <typename Decode>
  void WeighDims(int terms, Decode decode) const {
    const int dim_blocks = t_.head_dim / kBlockLanes;
    const int chunks = (t_.tiles + 1) / 2;
    for (int dim_block = 0; dim_block < dim_blocks; dim_block += 2) {
      const int columns = std::min(2, dim_blocks - dim_block);
      for (int c = 0; c < columns; ++c) {
        uint8_t* to = Column(c, kWeightChunks);
        for (int tile = 0; tile < t_.tiles; ++tile, to += kHalfChunkBytes) {
          t_.PrefetchNextKeys(tile, dim_block + c);
          decode(tile, dim_block + c, to);
          for (int term = 0; term < terms; ++term)
            ClearBeyond(t_.TokensIn(tile), to + term * TermStride(kWeightChunks));
        }
        if (t_.tiles % 2 == 0) continue;
        for (int term = 0; term < terms; ++term) ClearBeyond(0, to + term * TermStride(kWeightChunks));
      }
      MultiplyAll(weights_, columns, chunks, terms, kWeightChunks, [&](int row, int c, F sum) {
        float* to = t_.WeightedRow(row) + (dim_block + c) * kBlockLanes;
        StoreVec(to, LoadVec<F>(to) + sum);
      });
    }
  }

  template <typename Reader>
  void ReadValues(int tile, int dim_block, uint8_t* to) const {
    ReadSixteen<Reader>(Sixteen<Reader>(t_.ValuePart(tile).data, dim_block), to);
  }

  template <typename Decoder>
  void SplitValues(int tile, int dim_block, uint8_t* high) const {
    uint8_t* low = high + TermStride(kWeightChunks);
    const TilePart part_of = t_.ValuePart(tile);
    const int group = dim_block * kBlockLanes / t_.v_side.scale_elements;
    alignas(64) float scale[kTileTokens];
    StoreVec(scale, t_.Scales(t_.v_side, part_of.scales, group, 0) * Splat<F>(Decoder::kFactor));
    const uint8_t* block = part_of.data + int64_t{dim_block} * (kTileTokens / Decoder::kInner) * kBlockBytes;
    for (int token = 0; token < kTileTokens; token += Decoder::kInner, block += kBlockBytes) {
      F values[Decoder::kInner];
      DecodeWhole<N, Decoder>(block, 0,
                              [&](int inner, F value) { values[inner] = value * Splat<F>(scale[token + inner]); });
      StoreSplit<Decoder::kInner>(values, token / 2, high, low);
    }
  }

  // What lies beyond `tokens` in 16 tokens of values is stale: not even times zero.
  static void ClearBeyond(int tokens, uint8_t* rows) {
    for (int token = tokens; token < kTileTokens; ++token) {
      const U kept = token % 2 == 1 ? U{} + 0xffffu : U{};
      uint8_t* row = rows + token / 2 * kBlockBytes;
      StoreVec(row, LoadVec<U>(row) & kept);
    }
  }

  const SpanTiles<N, kProducts>& t_;
  const int query_chunks_;
  uint8_t* const memory_;
  AmxRows queries_, weights_;
  uint8_t* const second_;
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_AMX_H_
