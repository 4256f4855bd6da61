#include "probe/cutting_store.h"

#include <cmath>

#include "base/check.h"
#include "formats/e4m3fn.h"
#include "formats/e5m2.h"

namespace haypile {

bool CanCut(KvDtype dtype) {
  return dtype.k == dtype.v && (dtype.k == KvFormat::kFp8E4m3 || dtype.k == KvFormat::kFp8E5m2);
}

float CutToFormat(KvFormat format, float x) {
  const bool e4m3 = format == KvFormat::kFp8E4m3;
  HAYPILE_CHECK(e4m3 || format == KvFormat::kFp8E5m2);
  const uint8_t code = e4m3 ? E4m3fnFromFloat(x) : E5m2FromFloat(x);
  const auto value = [e4m3](uint8_t c) { return e4m3 ? FloatFromE4m3fn(c) : FloatFromE5m2(c); };
  // Codes of one sign ascend with magnitude.
  return std::abs(value(code)) > std::abs(x) ? value(static_cast<uint8_t>(code - 1)) : value(code);
}

CuttingStore::CuttingStore(const ModelSpec& spec, KvDtype dtype, KvScales scales)
    : kv_heads_(spec.kv_heads), head_dim_(spec.head_dim), dtype_(dtype), scales_(std::move(scales)) {
  HAYPILE_CHECK(CanCut(dtype));
}

void CuttingStore::Rewrite(int layer, float* k, float* v, int64_t rows) {
  Cut(dtype_.k, scales_.k, layer, k, rows);
  Cut(dtype_.v, scales_.v, layer, v, rows);
}

void CuttingStore::Cut(KvFormat format, const std::vector<std::vector<float>>& scales, int layer, float* values,
                       int64_t rows) const {
  for (int64_t i = 0; i < rows * kv_heads_ * head_dim_; ++i) {
    const auto head = static_cast<size_t>(i / head_dim_ % kv_heads_);
    const float scale = scales.empty() ? 1.0f : scales[static_cast<size_t>(layer)][head];
    values[i] = CutToFormat(format, values[i] / scale) * scale;
  }
}

}  // namespace haypile
