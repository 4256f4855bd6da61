#include "kernels/kv_write/kv_write.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "formats/row_codec.h"
#include "kernels/attention/tile_layout.h"

namespace haypile {
namespace {

constexpr int kMaxHeadDim = 512;
using CodeRow = std::array<uint16_t, kMaxHeadDim>;
using ScaleRow = std::array<uint32_t, kMaxHeadDim / 16>;

// Puts a code at its byte; of 4-bit elements only its nibble.
template <int kBits, bool kHighNibble>
inline void StoreCode(uint8_t* place, uint16_t code) {
  if constexpr (kBits == 16) {
    std::memcpy(place, &code, 2);
  } else if constexpr (kBits == 8) {
    *place = static_cast<uint8_t>(code);
  } else if constexpr (kHighNibble) {
    *place = static_cast<uint8_t>((*place & 0x0f) | code << 4);
  } else {
    *place = static_cast<uint8_t>((*place & 0xf0) | (code & 0x0f));
  }
}

// One token's codes into the K part: in every block its lane, and there all inner positions.
template <KvFormat kFormat, int kBits, size_t... kInner>
void ScatterKey(const CodeRow& codes, int head_dim, int token, uint8_t* part, std::index_sequence<kInner...>) {
  constexpr int kInnerCount = sizeof...(kInner);
  uint8_t* lane = part + LaneByte(kFormat, kBits, token);
  for (int dim = 0; dim < head_dim; dim += kInnerCount, lane += kBlockBytes) {
    (StoreCode<kBits, InHighNibble(kInner)>(lane + InnerByte(kFormat, kBits, kInner), codes[dim + kInner]), ...);
  }
}

// One token's codes into the V part: in one block of every 16 dims its inner position, and there all lanes.
template <KvFormat kFormat, int kBits, bool kHighNibble, size_t... kLane>
void ScatterValue(const CodeRow& codes, int head_dim, int token, uint8_t* part, std::index_sequence<kLane...>) {
  constexpr int kInnerCount = BlockInner(kBits);
  uint8_t* place = part + int64_t{token / kInnerCount} * kBlockBytes + InnerByte(kFormat, kBits, token % kInnerCount);
  for (int dim = 0; dim < head_dim; dim += kBlockLanes, place += kTileTokens / kInnerCount * kBlockBytes) {
    (StoreCode<kBits, kHighNibble>(place + LaneByte(kFormat, kBits, kLane), codes[dim + kLane]), ...);
  }
}

enum class Side { kKey, kValue };

template <KvFormat kFormat, int kBits>
void ScatterAs(Side side, const CodeRow& codes, int head_dim, int token, uint8_t* part) {
  constexpr auto kLanes = std::make_index_sequence<kBlockLanes>();
  if (side == Side::kKey) {
    ScatterKey<kFormat, kBits>(codes, head_dim, token, part, std::make_index_sequence<BlockInner(kBits)>());
  } else if (kBits == 4 && InHighNibble(token)) {
    ScatterValue<kFormat, kBits, true>(codes, head_dim, token, part, kLanes);
  } else {
    ScatterValue<kFormat, kBits, false>(codes, head_dim, token, part, kLanes);
  }
}

// Puts one row's codes in place; of the formats of one width only fp16 has a layout of its own.
void ScatterCodes(const KvFormatInfo& info, Side side, const CodeRow& codes, int head_dim, int token, uint8_t* part) {
  switch (info.element_bits) {
    case 16:
      if (info.format == KvFormat::kFp16) return ScatterAs<KvFormat::kFp16, 16>(side, codes, head_dim, token, part);
      return ScatterAs<KvFormat::kBf16, 16>(side, codes, head_dim, token, part);
    case 8:
      return ScatterAs<KvFormat::kFp8E4m3, 8>(side, codes, head_dim, token, part);
    default:
      HAYPILE_CHECK_EQ(info.element_bits, 4);
      return ScatterAs<KvFormat::kNvfp4, 4>(side, codes, head_dim, token, part);
  }
}

void StoreScales(const KvFormatInfo& info, const ScaleRow& scales, int count, int token, uint8_t* part) {
  for (int i = 0; i < count; ++i) {
    std::memcpy(part + ScaleByte(info.block_scale_bytes, token, i), &scales[i], info.block_scale_bytes);
  }
}

void NoteSpecialCodes(const PagedKvView& kv, KvFormat format, std::span<const uint16_t> codes) {
  if (!kv.MayHoldSpecialCodes() && AnySpecialFp8Code(format, codes)) {
    kv.holds_special_codes->store(true, std::memory_order_relaxed);
  }
}

// One token of one head; `tile` is the tile's start.
void WriteRow(const PagedKvView& kv, int head, int token, const float* key, const float* value, uint8_t* tile) {
  CodeRow codes;
  ScaleRow scales;
  const size_t head_dim = static_cast<size_t>(kv.head_dim);
  const KvFormatInfo& k_info = InfoOf(kv.k_format);
  const KvFormatInfo& v_info = InfoOf(kv.v_format);
  uint8_t* data = tile + head * kv.layout.data_head_stride;
  uint8_t* scale = tile + head * kv.layout.scale_head_stride;
  const QuantizedRow row{std::span(codes).first(head_dim), scales};

  EncodeRow(kv.k_format, {key, head_dim}, kv.k_global_scale ? kv.k_global_scale[head] : 1.0f, row);
  NoteSpecialCodes(kv, kv.k_format, row.codes);
  ScatterCodes(k_info, Side::kKey, codes, kv.head_dim, token, data + kv.layout.k_data_offset);
  StoreScales(k_info, scales, BlockScalesPerHead(k_info, kv.head_dim), token, scale + kv.layout.k_scale_offset);

  EncodeRow(kv.v_format, {value, head_dim}, kv.v_global_scale ? kv.v_global_scale[head] : 1.0f, row);
  NoteSpecialCodes(kv, kv.v_format, row.codes);
  ScatterCodes(v_info, Side::kValue, codes, kv.head_dim, token, data + kv.layout.v_data_offset);
  StoreScales(v_info, scales, BlockScalesPerHead(v_info, kv.head_dim), token, scale + kv.layout.v_scale_offset);
}

}  // namespace

void WriteKv(const PagedKvView& kv, std::span<const KvWriteSequence> sequences, const float* keys, const float* values,
             ThreadPool& pool) {
  HAYPILE_CHECK_LE(kv.head_dim, kMaxHeadDim);
  const size_t heads = static_cast<size_t>(kv.kv_heads);
  // 4-bit V shares bytes between tokens of a tile, so one worker takes a head of a sequence whole.
  pool.ParallelFor(sequences.size() * heads, [&](size_t item, int) {
    const KvWriteSequence& sequence = sequences[item / heads];
    const int head = static_cast<int>(item % heads);
    for (int i = 0; i < sequence.tokens; ++i) {
      const int64_t position = sequence.first_position + i;
      const int64_t in_page = position % kv.page_tokens;
      uint8_t* tile = kv.pages + sequence.page_table[position / kv.page_tokens] * kv.page_bytes +
                      in_page / kTileTokens * kv.layout.tile_bytes;
      const int64_t row = ((sequence.first_row + i) * kv.kv_heads + head) * kv.head_dim;
      WriteRow(kv, head, static_cast<int>(in_page % kTileTokens), keys + row, values + row, tile);
    }
  });
}

}  // namespace haypile
