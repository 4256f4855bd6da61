#pragma once

#include <cstdint>

#include "kernels/attention/paged_kv_view.h"

namespace haypile {

// Where an element lies inside its part of a tile (docs/page-layout.md draws it).
//
// A part (K or V of one head, 16 tokens) is a row of 64-byte blocks. Each block has 16 lanes and, in every lane, I
// elements: I = 2, 4 or 8 for 16-, 8- and 4-bit elements. For K a lane is a token and its elements are I consecutive
// dims: scores of 16 tokens build up in one vector and never need a horizontal sum. For V a lane is a dim (of 16) and
// its elements are I consecutive tokens: outputs of 16 dims build up in one vector.
//   K block b: tokens 0..15, dims b*I .. b*I+I-1.
//   V block b: dims (b / (16/I)) * 16 .. +15, tokens (b % (16/I)) * I .. +I-1.
// Inside a block, element (lane n, inner i):
//   bf16   byte 4n + 2i                                  pairs side by side, as BF16 dot products want them
//   fp16   byte 32i + 2n                                 lanes side by side, as the half-to-float conversion wants them
//   8 bits byte 16*(n/4) + 8*(i/2) + 2*(n%4) + i%2       widening by in-lane unpacks gives pairs in lane order
//   4 bits the 8-bit place of (n, i%4); low nibble for i < 4, high nibble for i >= 4
inline constexpr int kBlockBytes = 64;
inline constexpr int kBlockLanes = 16;

constexpr int BlockInner(int element_bits) { return 32 / element_bits; }

// Byte inside a block: a part that the lane decides plus one that the inner position decides.
constexpr int LaneByte(KvFormat format, int element_bits, int lane) {
  if (element_bits == 16) return format == KvFormat::kFp16 ? 2 * lane : 4 * lane;
  return 16 * (lane / 4) + 2 * (lane % 4);
}
constexpr int InnerByte(KvFormat format, int element_bits, int inner) {
  if (element_bits == 16) return format == KvFormat::kFp16 ? 32 * inner : 2 * inner;
  const int i = inner % 4;
  return 8 * (i / 2) + i % 2;
}
constexpr int BlockByte(KvFormat format, int element_bits, int lane, int inner) {
  return LaneByte(format, element_bits, lane) + InnerByte(format, element_bits, inner);
}

// Byte offset of K's element (token in 0..15, dim) inside the K part; 4-bit elements share it by nibble.
constexpr int64_t KElementByte(KvFormat format, int element_bits, int token, int dim) {
  const int inner = BlockInner(element_bits);
  return int64_t{dim / inner} * kBlockBytes + BlockByte(format, element_bits, token, dim % inner);
}

// Byte offset of V's element inside the V part.
constexpr int64_t VElementByte(KvFormat format, int element_bits, int token, int dim) {
  const int inner = BlockInner(element_bits);
  const int64_t block = int64_t{dim / kBlockLanes} * (kTileTokens / inner) + token / inner;
  return block * kBlockBytes + BlockByte(format, element_bits, dim % kBlockLanes, token % inner);
}

// Whether a 4-bit element sits in the high nibble: `position` is the dim for K and the token for V.
constexpr bool InHighNibble(int position) { return position % 8 >= 4; }

// Block scales of a part: [scale index along the head][16 tokens], each scale_bytes wide, K and V alike.
constexpr int64_t ScaleByte(int scale_bytes, int token, int scale_index) {
  return int64_t{scale_bytes} * (scale_index * kTileTokens + token);
}

// The layout of a tile; its tile_bytes equals kTileTokens * LayerKvGeometry::BytesPerToken().
TileLayout MakeTileLayout(KvFormat k_format, KvFormat v_format, int kv_heads, int head_dim);

}  // namespace haypile
