#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/paged_kv_view.h"
#include "kernels/isa/isa.h"

namespace haypile {

// Most rows (query tokens times heads of one group) that one span call takes, and widest head.
inline constexpr int kMaxSpanRows = 96;
inline constexpr int kMaxSpanHeadDim = 512;
// Most block scales along a head: the smallest block of a format has 16 elements.
inline constexpr int kMostScaleGroups = kMaxSpanHeadDim / 16;
// Tokens whose scores are held at once.
inline constexpr int kBlockTokens = 128;
// Up to this many rows elements are decoded straight into the products; above, a tile is brought into FP32 or 16-bit
// integers once for all rows.
// Where two products and their sum are one instruction, and registers are many, more rows are worth it.
inline constexpr int kFusedRows = 4;
inline constexpr int kMostFusedRows = 8;

// Most floats of the patterns of queries, and of queries and weights together, that kernels for few rows lay out
// (fp8_products.h): two vectors of 16 lanes for every row and four dims or tokens.
inline constexpr int kKeyPatternFloats = kFusedRows * kMaxSpanHeadDim / 4 * 2 * 16;
inline constexpr int kFewRowsPatternFloats = kKeyPatternFloats + kFusedRows * kBlockTokens / 4 * 2 * 16;
// What kernels with tile registers lay out instead (amx_products.h): queries and weights of all rows, each as two BF16.
inline constexpr int kAmxQueryBytes = 2 * 2 * kMaxSpanRows * kMaxSpanHeadDim;
inline constexpr int kAmxWeightBytes = 2 * 2 * kMaxSpanRows * kBlockTokens;
inline constexpr int kPatternFloats =
    std::max<int>(kFewRowsPatternFloats, (kAmxQueryBytes + kAmxWeightBytes) / sizeof(float));

// The state of online softmax for `rows` query rows that share one KV head, and the span of tokens to add to it.
// Scores are in units of log2: queries come multiplied by query_scale * k_global_scale * log2(e).
struct AttentionSpan {
  const PagedKvView* kv = nullptr;
  const int32_t* page_table = nullptr;
  int kv_head = 0;
  int rows = 0;
  int64_t begin = 0, end = 0;          // tokens
  const float* queries = nullptr;      // [rows][head_dim]
  const int64_t* row_begin = nullptr;  // row r sees tokens row_begin[r] .. row_end[r]-1 of the span
  const int64_t* row_end = nullptr;
  float* row_max = nullptr;   // [rows], -inf at the start
  float* row_sum = nullptr;   // [rows], sum of exp2(score - row_max)
  float* weighted = nullptr;  // [rows][head_dim], sum of exp2(score - row_max) * V without V's global scale
  float* scores = nullptr;    // scratch: kMaxSpanRows * kBlockTokens
  float* decoded = nullptr;   // scratch: kBlockTokens * max(head_dim, 32), 64-byte aligned
  float* patterns = nullptr;  // scratch: kPatternFloats, 64-byte aligned
  // A hint: the span that the caller takes next, whose first keys are asked for in time. Nothing when begin == end.
  struct Next {
    const int32_t* page_table = nullptr;
    int kv_head = 0;
    int64_t begin = 0, end = 0;
  } next;
  bool keys_asked_for = false;  // by the span before, as its `next`
};

using AttendSpanFn = void (*)(const AttentionSpan&);

// One kernel a level; the scalar one is the reference, written from the formats' definition.
void AttendSpanScalar(const AttentionSpan& span);
void AttendSpanAvx2(const AttentionSpan& span);
void AttendSpanAvx512(const AttentionSpan& span);
void AttendSpanAvx512Bf16(const AttentionSpan& span);
void AttendSpanAmx(const AttentionSpan& span);
void AttendSpanNeon(const AttentionSpan& span);
// The same without products of FP32 subnormals, for processors where SubnormalsAreFast() is false.
void AttendSpanAvx2Tables(const AttentionSpan& span);
void AttendSpanAvx512Tables(const AttentionSpan& span);
// The same without BF16 products, for processors where Bf16ProductsAreFast() is false.
void AttendSpanAvx512Bf16Tables(const AttentionSpan& span);
AttendSpanFn AttendSpanFor(Isa isa);

// Start of the tile that holds `token`, which is a multiple of kTileTokens.
inline const uint8_t* TileAt(const PagedKvView& kv, const int32_t* page_table, int64_t token) {
  return kv.pages + page_table[token / kv.page_tokens] * kv.page_bytes +
         token % kv.page_tokens / kTileTokens * kv.layout.tile_bytes;
}

}  // namespace haypile
