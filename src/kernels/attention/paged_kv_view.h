#pragma once

#include <atomic>
#include <cstdint>

#include "formats/kv_format.h"

namespace haypile {

// Tokens of one tile: pages hold whole tiles, kernels work on whole tiles.
inline constexpr int kTileTokens = 16;

// Where one tile of one layer keeps its parts; offsets in bytes from the tile's start. The order inside a tile:
//   for each KV head: K elements, V elements; then for each KV head: K block scales, V block scales.
// How elements lie inside their part is fixed by kernels/attention/tile_layout.h.
struct TileLayout {
  int64_t k_data_offset = 0;
  int64_t v_data_offset = 0;
  int64_t data_head_stride = 0;
  int64_t k_scale_offset = 0;
  int64_t v_scale_offset = 0;
  int64_t scale_head_stride = 0;
  int64_t tile_bytes = 0;
};

// One layer's paged cache as the kernels see it: plain pointers, no pool. Token t of a sequence lies in tile
// t % page_tokens / kTileTokens of page page_table[t / page_tokens]; pages that a window has left behind may hold any
// number and are never read.
struct PagedKvView {
  uint8_t* pages = nullptr;
  int64_t page_bytes = 0;
  int page_tokens = kTileTokens;
  int kv_heads = 0;
  int head_dim = 0;
  KvFormat k_format = KvFormat::kBf16;
  KvFormat v_format = KvFormat::kBf16;
  TileLayout layout;
  const float* k_global_scale = nullptr;  // kv_heads entries, decode multipliers; null means 1.0
  const float* v_global_scale = nullptr;
  // Whether a page may hold an 8-bit float code that is NaN or infinite: writers set it, kernels need not look at every
  // code while it is false. Null: not known.
  std::atomic<bool>* holds_special_codes = nullptr;

  bool MayHoldSpecialCodes() const {
    return holds_special_codes == nullptr || holds_special_codes->load(std::memory_order_relaxed);
  }
};

}  // namespace haypile
