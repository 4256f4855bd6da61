#include "kernels/kv_write/kv_write.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "formats/row_codec.h"
#include "kernels/attention/tile_layout.h"

namespace haypile {
namespace {

constexpr int kMaxHeadDim = 512;
using CodeRow = std::array<uint16_t, kMaxHeadDim>;
using ScaleRow = std::array<uint32_t, kMaxHeadDim / 16>;

// Puts one row's codes in place. `ElementByte` is KElementByte or VElementByte; `position_of` picks what decides the
// nibble (dim for K, token for V).
template <typename ElementByte>
void ScatterCodes(const KvFormatInfo& info, const CodeRow& codes, int head_dim, int token, bool nibble_by_dim,
                  ElementByte element_byte, uint8_t* part) {
  for (int dim = 0; dim < head_dim; ++dim) {
    uint8_t* place = part + element_byte(info.format, info.element_bits, token, dim);
    if (info.element_bits == 16) {
      std::memcpy(place, &codes[dim], 2);
    } else if (info.element_bits == 8) {
      *place = static_cast<uint8_t>(codes[dim]);
    } else if (InHighNibble(nibble_by_dim ? dim : token)) {
      *place = static_cast<uint8_t>((*place & 0x0f) | codes[dim] << 4);
    } else {
      *place = static_cast<uint8_t>((*place & 0xf0) | (codes[dim] & 0x0f));
    }
  }
}

void StoreScales(const KvFormatInfo& info, const ScaleRow& scales, int count, int token, uint8_t* part) {
  for (int i = 0; i < count; ++i) {
    std::memcpy(part + ScaleByte(info.block_scale_bytes, token, i), &scales[i], info.block_scale_bytes);
  }
}

// Whether a code of an 8-bit float format is NaN or infinite; no other format has such codes to look for.
const std::array<bool, 256>* SpecialCodesOf(KvFormat format) {
  static const auto tables = [] {
    std::array<std::array<bool, 256>, kKvFormatCount> all{};
    for (const KvFormatInfo& info : AllKvFormats()) {
      if (info.element_bits != 8) continue;
      for (int code = 0; code < 256; ++code) {
        all[static_cast<size_t>(info.format)][code] =
            !std::isfinite(ElementValue(info.format, static_cast<uint16_t>(code)));
      }
    }
    return all;
  }();
  const auto& table = tables[static_cast<size_t>(format)];
  return std::find(table.begin(), table.end(), true) == table.end() ? nullptr : &table;
}

void NoteSpecialCodes(const PagedKvView& kv, KvFormat format, std::span<const uint16_t> codes) {
  if (kv.MayHoldSpecialCodes()) return;
  const std::array<bool, 256>* special = SpecialCodesOf(format);
  if (special == nullptr) return;
  if (std::any_of(codes.begin(), codes.end(), [&](uint16_t code) { return (*special)[code & 0xff]; })) {
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
  ScatterCodes(k_info, codes, kv.head_dim, token, true, KElementByte, data + kv.layout.k_data_offset);
  StoreScales(k_info, scales, BlockScalesPerHead(k_info, kv.head_dim), token, scale + kv.layout.k_scale_offset);

  EncodeRow(kv.v_format, {value, head_dim}, kv.v_global_scale ? kv.v_global_scale[head] : 1.0f, row);
  NoteSpecialCodes(kv, kv.v_format, row.codes);
  ScatterCodes(v_info, codes, kv.head_dim, token, false, VElementByte, data + kv.layout.v_data_offset);
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
