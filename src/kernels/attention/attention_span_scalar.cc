#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "formats/row_codec.h"
#include "kernels/attention/attention_span.h"
#include "kernels/attention/tile_layout.h"

namespace haypile {
namespace {

struct DecodedRow {
  std::array<float, kMaxSpanHeadDim> values;
};

// Reads one token's K or V of one head back from its tile, without the global scale.
void ReadRow(const KvFormatInfo& info, const uint8_t* data, const uint8_t* scale_part, int head_dim, int token,
             bool is_key, DecodedRow& row) {
  std::array<uint16_t, kMaxSpanHeadDim> codes{};
  std::array<uint32_t, kMaxSpanHeadDim / 16> scales{};
  for (int dim = 0; dim < head_dim; ++dim) {
    const int64_t byte = is_key ? KElementByte(info.format, info.element_bits, token, dim)
                                : VElementByte(info.format, info.element_bits, token, dim);
    uint16_t code = data[byte];
    if (info.element_bits == 16) std::memcpy(&code, data + byte, 2);
    if (info.element_bits == 4) code = InHighNibble(is_key ? dim : token) ? code >> 4 : code & 0x0f;
    codes[dim] = code;
  }
  const int scale_count = BlockScalesPerHead(info, head_dim);
  for (int i = 0; i < scale_count; ++i) {
    std::memcpy(&scales[i], scale_part + ScaleByte(info.block_scale_bytes, token, i), info.block_scale_bytes);
  }
  const size_t n = static_cast<size_t>(head_dim);
  DecodeRow(info.format, {codes.data(), n}, {scales.data(), static_cast<size_t>(scale_count)}, 1.0f,
            {row.values.data(), n});
}

void AddToken(const AttentionSpan& span, int64_t token, int row, const DecodedRow& key, const DecodedRow& value) {
  const int head_dim = span.kv->head_dim;
  const float* query = span.queries + int64_t{row} * head_dim;
  float* weighted = span.weighted + int64_t{row} * head_dim;
  if (token < span.row_begin[row] || token >= span.row_end[row]) return;
  float score = 0;
  for (int d = 0; d < head_dim; ++d) score += query[d] * key.values[d];
  const float new_max = std::max(span.row_max[row], score);
  const float keep = std::exp2(span.row_max[row] - new_max);
  const float weight = std::exp2(score - new_max);
  span.row_sum[row] = span.row_sum[row] * keep + weight;
  for (int d = 0; d < head_dim; ++d) weighted[d] = weighted[d] * keep + weight * value.values[d];
  span.row_max[row] = new_max;
}

}  // namespace

void AttendSpanScalar(const AttentionSpan& span) {
  const PagedKvView& kv = *span.kv;
  DecodedRow key, value;
  for (int64_t token = span.begin; token < span.end; ++token) {
    const int in_tile = static_cast<int>(token % kTileTokens);
    const uint8_t* tile = TileAt(kv, span.page_table, token - in_tile);
    const uint8_t* data = tile + span.kv_head * kv.layout.data_head_stride;
    const uint8_t* scales = tile + span.kv_head * kv.layout.scale_head_stride;
    ReadRow(InfoOf(kv.k_format), data + kv.layout.k_data_offset, scales + kv.layout.k_scale_offset, kv.head_dim,
            in_tile, true, key);
    ReadRow(InfoOf(kv.v_format), data + kv.layout.v_data_offset, scales + kv.layout.v_scale_offset, kv.head_dim,
            in_tile, false, value);
    for (int row = 0; row < span.rows; ++row) AddToken(span, token, row, key, value);
  }
}

}  // namespace haypile
