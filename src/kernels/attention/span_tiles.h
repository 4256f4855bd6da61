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
};

inline SideInfo SideOf(KvFormat format, int head_dim) {
  const KvFormatInfo& info = InfoOf(format);
  return {info.block_scale, info.block_scale_bytes, info.block_elements > 0 ? info.block_elements : head_dim};
}

// kFastDenormals: this processor multiplies FP32 subnormals at full speed (fp8_products.h).
template <int N, bool kFastDenormals>
class SpanTiles {
 public:
  using F = typename Vec<N>::F;
  static constexpr int kParts = kBlockLanes / N;
  static constexpr int kPrefetchTiles = 2;

  explicit SpanTiles(const AttentionSpan& span_of)
      : span(span_of),
        kv(*span.kv),
        head_dim(kv.head_dim),
        k_side(SideOf(kv.k_format, head_dim)),
        v_side(SideOf(kv.v_format, head_dim)) {}

  bool Fused() const { return span.rows <= kFusedRows; }
  int BlockTokens() const { return Fused() ? kDecodeBlockTokens : kPrefillBlockTokens; }
  float* ScoreRow(int row) const { return span.scores + int64_t{row} * BlockTokens(); }
  const float* QueryRow(int row) const { return span.queries + int64_t{row} * head_dim; }
  float* WeightedRow(int row) const { return span.weighted + int64_t{row} * head_dim; }

  int64_t FirstBlock() const { return span.begin / kTileTokens * kTileTokens; }
  bool InFirstBlock() const { return begin == FirstBlock(); }

  void EnterBlock(int64_t first_token) {
    begin = first_token;
    end = std::min(first_token + BlockTokens(), span.end);
    tiles = static_cast<int>((end - begin + kTileTokens - 1) / kTileTokens);
    for (int tile = 0; tile < tiles + kPrefetchTiles; ++tile) {
      const int64_t token = begin + int64_t{tile} * kTileTokens;
      starts_[tile] = token < span.end ? TileAt(kv, span.page_table, token) : nullptr;
    }
  }

  // Asks for K and V of a tile to come. A head's part of a tile is a short run far from the next one, which hardware
  // prefetchers start too late for: without this each run costs a memory latency.
  void PrefetchTile(int tile) const {
    if (starts_[tile] == nullptr) return;
    const uint8_t* data = starts_[tile] + span.kv_head * kv.layout.data_head_stride;
    for (int64_t byte = 0; byte < kv.layout.data_head_stride; byte += kBlockBytes) __builtin_prefetch(data + byte);
    const uint8_t* scales = starts_[tile] + span.kv_head * kv.layout.scale_head_stride;
    for (int64_t byte = 0; byte < kv.layout.scale_head_stride; byte += kBlockBytes) {
      __builtin_prefetch(scales + kv.layout.k_scale_offset + byte);
    }
  }

  TilePart KeyPart(int tile) const { return Part(tile, kv.layout.k_data_offset, kv.layout.k_scale_offset); }
  TilePart ValuePart(int tile) const { return Part(tile, kv.layout.v_data_offset, kv.layout.v_scale_offset); }

  // Block scales `index` along the head of the tokens in a part of the tile.
  static F Scales(const SideInfo& side, const uint8_t* scales, int index, int part) {
    return DecodeScales<N, kFastDenormals>(side.scale_kind, scales + ScaleByte(side.scale_bytes, part * N, index));
  }
  int ScaleGroups(const SideInfo& side) const { return head_dim / side.scale_elements; }

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

 private:
  TilePart Part(int tile, int64_t data_offset, int64_t scale_offset) const {
    return {starts_[tile] + span.kv_head * kv.layout.data_head_stride + data_offset,
            starts_[tile] + span.kv_head * kv.layout.scale_head_stride + scale_offset};
  }

  static constexpr int kMostTiles =
      (kDecodeBlockTokens > kPrefillBlockTokens ? kDecodeBlockTokens : kPrefillBlockTokens) / kTileTokens;
  const uint8_t* starts_[kMostTiles + kPrefetchTiles];
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_SPAN_TILES_H_
