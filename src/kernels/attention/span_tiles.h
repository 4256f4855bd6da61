// What the key and the value side of a span kernel share: its rows and the tiles of the current block of tokens.
// Included only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_SPAN_TILES_H_
#define HAYPILE_KERNELS_ATTENTION_SPAN_TILES_H_

#include <algorithm>

#include "kernels/attention/attention_span.h"
#include "kernels/attention/kv_decoders.h"

namespace haypile {
namespace {

// One side (K or V) of one head in one tile.
struct TilePart {
  const uint8_t* data;
  const uint8_t* scales;
};

// How one side's block scales lie.
struct SideInfo {
  BlockScale scale_kind;
  int scale_bytes;
  int scale_elements;  // elements along the head that share a scale; head_dim when one or none
  int scale_groups;    // of so many elements in a head
};

inline SideInfo SideOf(KvFormat format, int head_dim) {
  const KvFormatInfo& info = InfoOf(format);
  const int elements = info.block_elements > 0 ? info.block_elements : head_dim;
  return {info.block_scale, info.block_scale_bytes, elements, head_dim / elements};
}

// How BF16 and 8-bit floats are multiplied.
enum class FloatProducts {
  kDirect,  // FP32, 8-bit floats as FP32 subnormals where the processor multiplies these at full speed (fp8_products.h)
  kTables,  // FP32, 8-bit floats decoded to normal numbers
  kBf16,    // BF16 pairs (bf16_products.h)
  kAmx,     // BF16 in tile registers (amx_products.h)
};

template <int N, FloatProducts kProducts>
class SpanTiles {
 public:
  using F = typename Vec<N>::F;
  static constexpr int kParts = kBlockLanes / N;
  static constexpr int kFused = kProducts == FloatProducts::kBf16 ? kMostFusedRows : kFusedRows;

  // Up to this many rows are taken in turns of kFused: where registers are few, decoding again costs less than storing.
  static constexpr int kMostInTurns = N == 8 ? 2 * kFused : kFused;

  explicit SpanTiles(const AttentionSpan& span_of)
      : span(span_of),
        kv(*span.kv),
        head_dim(kv.head_dim),
        k_side(SideOf(kv.k_format, head_dim)),
        v_side(SideOf(kv.v_format, head_dim)) {}

  bool Fused() const { return span.rows <= kFused; }
  bool InTurns() const { return span.rows <= kMostInTurns; }
  float* ScoreRow(int row) const { return span.scores + int64_t{row} * kBlockTokens; }
  const float* QueryRow(int row) const { return span.queries + int64_t{row} * head_dim; }
  float* WeightedRow(int row) const { return span.weighted + int64_t{row} * head_dim; }

  int64_t FirstBlock() const { return span.begin / kTileTokens * kTileTokens; }
  bool InFirstBlock() const { return begin == FirstBlock(); }

  void EnterBlock(int64_t first_token) {
    begin = first_token;
    end = std::min(first_token + kBlockTokens, span.end);
    tiles = static_cast<int>((end - begin + kTileTokens - 1) / kTileTokens);
    const int block_tiles = kBlockTokens / kTileTokens;
    const bool last = first_token + kBlockTokens >= span.end;
    if (InFirstBlock()) {
      FindStarts(span.page_table, begin, span.end, block_tiles, starts_);
    } else {
      std::copy(next_starts_, next_starts_ + block_tiles, starts_);
    }
    if (last) {
      FindStarts(span.next.page_table, span.next.begin / kTileTokens * kTileTokens, span.next.end, block_tiles,
                 next_starts_);
    } else {
      FindStarts(span.page_table, begin + kBlockTokens, span.end, block_tiles, next_starts_);
    }
    if (InFirstBlock() && !span.keys_asked_for) {
      for (int tile = 0; tile < tiles; ++tile) {
        PrefetchRun(DataOf(starts_[tile], span.kv_head) + kv.layout.k_data_offset, k_bytes_);
        PrefetchRun(ScalesOf(starts_[tile], span.kv_head) + kv.layout.k_scale_offset, k_scale_bytes_);
      }
    }
    for (int tile = 0; tile < block_tiles; ++tile) LookAhead(tile, last ? span.next.kv_head : span.kv_head);
  }

  // A head's part of a tile is a short run far from the next one, which hardware prefetchers start too late for:
  // without these each run costs a memory latency. They are spread evenly: while keys are read, the values of the same
  // block are asked for, and the other way round, so that memory is busy all the time and has half a block's time to
  // answer.
  // Both ask for the share of a tile that goes with 16 dims of the other side.
  inline __attribute__((always_inline)) void PrefetchValues(int tile, int dim_block) const {
    PrefetchShare(values_ahead_[tile] + dim_block * v_share_, v_share_);
  }
  inline __attribute__((always_inline)) void PrefetchNextKeys(int tile, int dim_block) const {
    PrefetchShare(keys_ahead_[tile] + dim_block * k_share_, k_share_);
  }

  TilePart KeyPart(int tile) const { return Part(tile, kv.layout.k_data_offset, kv.layout.k_scale_offset); }
  TilePart ValuePart(int tile) const { return Part(tile, kv.layout.v_data_offset, kv.layout.v_scale_offset); }

  // Block scales `index` along the head of the tokens in a part of the tile.
  static F Scales(const SideInfo& side, const uint8_t* scales, int index, int part) {
    return DecodeScales<N, kProducts == FloatProducts::kDirect>(side.scale_kind,
                                                                scales + ScaleByte(side.scale_bytes, part * N, index));
  }
  // All block scales of one side of a tile, of a kind known beforehand: those of group g and token n go to
  // out[g * stride + n].
  template <BlockScale kScale>
  void DecodeScalesOfTile(const SideInfo& side, const uint8_t* scales, float* out, int64_t stride) const {
    const int groups = side.scale_groups;
    if (kScale == BlockScale::kE4m3 && groups % 2 == 0 && ArePlainE4m3<N>(scales, groups * kTileTokens)) {
      return DecodeScaleRows<kScale, true>(side, scales, out, stride);
    }
    DecodeScaleRows<kScale, false>(side, scales, out, stride);
  }
  // The values' block scales of all tiles of the current block, [group][kBlockTokens]; zero for tokens past the end.
  template <BlockScale kScale>
  void DecodeValueScales(float* out) const {
    for (int tile = 0; tile < tiles; ++tile) {
      DecodeScalesOfTile<kScale>(v_side, ValuePart(tile).scales, out + tile * kTileTokens, kBlockTokens);
    }
    if (end - begin == tiles * kTileTokens) return;
    for (int group = 0; group < v_side.scale_groups; ++group) {
      std::fill(out + group * kBlockTokens + (end - begin), out + group * kBlockTokens + tiles * kTileTokens, 0.0f);
    }
  }

  // Tokens of a tile that any row can see; beyond them memory is stale and must not be multiplied, not even by zero.
  int TokensIn(int tile) const {
    return static_cast<int>(std::min<int64_t>(kTileTokens, end - begin - int64_t{tile} * kTileTokens));
  }
  int WholeTiles() const { return static_cast<int>((end - begin) / kTileTokens); }

  const AttentionSpan& span;
  const PagedKvView& kv;
  const int head_dim;
  const SideInfo k_side, v_side;
  int64_t begin = 0, end = 0;  // tokens of the current block
  int tiles = 0;               // tiles of the current block, the last one perhaps not whole
  const bool integer_values = InfoOf(kv.v_format).block_scale != BlockScale::kNone;
  float weight_max[kMaxSpanRows] = {};  // the largest weight of each row in the current block, for integer_values

 private:
  template <BlockScale kScale, bool kPlain>
  void DecodeScaleRows(const SideInfo& side, const uint8_t* scales, float* out, int64_t stride) const {
    const int groups = side.scale_groups, bytes = side.scale_bytes;
    for (int group = 0; group < groups; ++group) {
      HAYPILE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        StoreVec(out + group * stride + part * N,
                 DecodeScalesOf<N, kProducts == FloatProducts::kDirect, kScale, kPlain>(
                     scales + ScaleByte(bytes, part * N, group)));
      }
    }
  }

  TilePart Part(int tile, int64_t data_offset, int64_t scale_offset) const {
    return {starts_[tile] + span.kv_head * kv.layout.data_head_stride + data_offset,
            starts_[tile] + span.kv_head * kv.layout.scale_head_stride + scale_offset};
  }

  // Where the tiles of [first_token, end_token) begin; null past the end. One division for all: page sizes are any
  // multiple of a tile.
  void FindStarts(const int32_t* page_table, int64_t first_token, int64_t end_token, int count,
                  const uint8_t** starts) const {
    const int tiles_in_page = kv.page_tokens / kTileTokens;
    int64_t page = first_token / kv.page_tokens;
    int in_page = static_cast<int>(first_token % kv.page_tokens) / kTileTokens;
    for (int tile = 0; tile < count; ++tile, first_token += kTileTokens) {
      starts[tile] = first_token < end_token
                         ? kv.pages + page_table[page] * kv.page_bytes + in_page * kv.layout.tile_bytes
                         : nullptr;
      if (++in_page == tiles_in_page) {
        in_page = 0;
        ++page;
      }
    }
  }
  const uint8_t* DataOf(const uint8_t* start, int head) const { return start + head * kv.layout.data_head_stride; }
  const uint8_t* ScalesOf(const uint8_t* start, int head) const { return start + head * kv.layout.scale_head_stride; }
  // 256 elements of 4, 8 or 16 bits: 2, 4 or 8 lines. A loop would take twice as many instructions.
  static inline __attribute__((always_inline)) void PrefetchShare(const uint8_t* data, int64_t bytes) {
    PrefetchLines<0, 2>(data);
    if (bytes == 2 * kBlockBytes) return;
    PrefetchLines<2, 4>(data);
    if (bytes == 4 * kBlockBytes) return;
    PrefetchLines<4, 8>(data);
  }
  template <int kFirst, int kEnd>
  static inline __attribute__((always_inline)) void PrefetchLines(const uint8_t* data) {
    HAYPILE_UNROLL
    for (int line = kFirst; line < kEnd; ++line) PrefetchLine(data + line * kBlockBytes);
  }
  static void PrefetchRun(const uint8_t* data, int64_t bytes) {
    for (int64_t byte = 0; byte < bytes; byte += kBlockBytes) PrefetchLine(data + byte);
  }
  // Where a tile's values and the next block's keys lie, and their block scales asked for at once, since they are few.
  // A tile that is not there: what is there already is asked for again.
  void LookAhead(int tile, int next_head) {
    values_ahead_[tile] = keys_ahead_[tile] = DataOf(starts_[0], span.kv_head);
    if (starts_[tile] != nullptr) {
      values_ahead_[tile] = DataOf(starts_[tile], span.kv_head) + kv.layout.v_data_offset;
      PrefetchRun(ScalesOf(starts_[tile], span.kv_head) + kv.layout.v_scale_offset, v_scale_bytes_);
    }
    if (next_starts_[tile] != nullptr) {
      keys_ahead_[tile] = DataOf(next_starts_[tile], next_head) + kv.layout.k_data_offset;
      PrefetchRun(ScalesOf(next_starts_[tile], next_head) + kv.layout.k_scale_offset, k_scale_bytes_);
    }
  }

  const int64_t k_bytes_ = kv.layout.v_data_offset - kv.layout.k_data_offset;
  const int64_t v_bytes_ = kv.layout.data_head_stride - k_bytes_;
  const int64_t k_scale_bytes_ = kv.layout.v_scale_offset - kv.layout.k_scale_offset;
  const int64_t v_scale_bytes_ = kv.layout.scale_head_stride - k_scale_bytes_;
  const int64_t k_share_ = k_bytes_ * kBlockLanes / head_dim;
  const int64_t v_share_ = v_bytes_ * kBlockLanes / head_dim;
  static constexpr int kMostTiles = kBlockTokens / kTileTokens;
  const uint8_t* starts_[kMostTiles];
  const uint8_t* next_starts_[kMostTiles];
  const uint8_t* values_ahead_[kMostTiles];
  const uint8_t* keys_ahead_[kMostTiles];
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_TILES_H_
