#include "models/decoder_workspace.h"

namespace haypile {
namespace {
constexpr int64_t kAlignmentFloats = 16;
}  // namespace

Status DecoderWorkspace::Reserve(const ModelSpec& spec, int64_t rows) {
  if (rows <= rows_) return {};
  const int64_t h = spec.hidden_size, f = spec.feed_forward_size, half = spec.head_dim / 2;
  const int64_t hq = int64_t{spec.query_heads} * spec.head_dim, hkv = int64_t{spec.kv_heads} * spec.head_dim;
  const struct {
    float** part;
    int64_t row_floats;
  } parts[] = {{&x, h},        {&normed, h},           {&projected, h},     {&q, hq}, {&k, hkv},
               {&v, hkv},      {&attention, hq},       {&gate, f},          {&up, f}, {&cosines, half},
               {&sines, half}, {&local_cosines, half}, {&local_sines, half}};
  const auto part_floats = [&](int64_t row_floats) {
    return (rows * row_floats + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
  };
  int64_t floats = 0;
  for (const auto& part : parts) floats += part_floats(part.row_floats);
  rows_ = 0;
  memory_ = AlignedBuffer();
  HAYPILE_TRY_ASSIGN(memory_, AlignedBuffer::Allocate(floats * sizeof(float)));
  float* next = memory_.as<float>();
  for (const auto& part : parts) {
    *part.part = next;
    next += part_floats(part.row_floats);
  }
  rows_ = rows;
  return {};
}

}  // namespace haypile
