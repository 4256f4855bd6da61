#include "kernels/attention/tile_layout.h"

#include "spec/kv_geometry.h"

namespace haypile {
namespace {

int64_t DataBytes(KvFormat format, int head_dim) {
  return int64_t{kTileTokens} * head_dim * InfoOf(format).element_bits / 8;
}

int64_t ScaleBytes(KvFormat format, int head_dim) {
  return kTileTokens * RowBytes(format, head_dim) - DataBytes(format, head_dim);
}

}  // namespace

TileLayout MakeTileLayout(KvFormat k_format, KvFormat v_format, int kv_heads, int head_dim) {
  TileLayout layout;
  layout.v_data_offset = DataBytes(k_format, head_dim);
  layout.data_head_stride = layout.v_data_offset + DataBytes(v_format, head_dim);
  layout.k_scale_offset = kv_heads * layout.data_head_stride;
  layout.v_scale_offset = layout.k_scale_offset + ScaleBytes(k_format, head_dim);
  layout.scale_head_stride = ScaleBytes(k_format, head_dim) + ScaleBytes(v_format, head_dim);
  layout.tile_bytes = layout.k_scale_offset + kv_heads * layout.scale_head_stride;
  return layout;
}

}  // namespace haypile
