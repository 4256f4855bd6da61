#include "compare/kv_amax.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "formats/row_codec.h"

namespace haypile {
namespace {

void Widen(std::optional<Interval>* interval, double value) {
  if (!*interval) *interval = Interval{value, value};
  (*interval)->low = std::min((*interval)->low, value);
  (*interval)->high = std::max((*interval)->high, value);
}

bool ReadFloats(const Json& json, std::vector<float>* values) {
  if (!json.is_array() || json.size() != values->size()) return false;
  std::vector<float> read;
  for (const Json& value : json) {
    if (!value.is_number()) return false;
    read.push_back(value.get<float>());
  }
  *values = std::move(read);
  return true;
}

}  // namespace

KvAmax::KvAmax(const ModelSpec& spec)
    : heads_(static_cast<size_t>(spec.kv_heads)),
      head_dim_(static_cast<size_t>(spec.head_dim)),
      k_(static_cast<size_t>(spec.layer_count) * heads_),
      v_(k_.size()) {}

void KvAmax::OnKv(int layer, const float* k, const float* v, int64_t rows) {
  for (const auto& [values, amax] : {std::pair{k, &k_}, std::pair{v, &v_}}) {
    float* of_layer = amax->data() + static_cast<size_t>(layer) * heads_;
    const float* value = values;
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t head = 0; head < heads_; ++head) {
        float largest = of_layer[head];
        for (size_t i = 0; i < head_dim_; ++i, ++value) {
          if (std::isfinite(*value)) largest = std::max(largest, std::fabs(*value));
        }
        of_layer[head] = largest;
      }
    }
  }
}

void KvAmax::Merge(const KvAmax& other) {
  for (size_t i = 0; i < k_.size(); ++i) {
    k_[i] = std::max(k_[i], other.k_[i]);
    v_[i] = std::max(v_[i], other.v_[i]);
  }
}

Json KvAmax::ToJson() const { return {{"k", k_}, {"v", v_}}; }

bool KvAmax::FromJson(const Json& json) {
  if (!json.is_object() || !json.contains("k") || !json.contains("v")) return false;
  std::vector<float> k(k_.size()), v(v_.size());
  if (!ReadFloats(json["k"], &k) || !ReadFloats(json["v"], &v)) return false;
  k_ = std::move(k);
  v_ = std::move(v);
  return true;
}

std::optional<ScaleUse> ScaleUseOf(CacheSide side, const KvGeometry& geometry, KvFormat format,
                                   const std::vector<std::vector<float>>& scales, const KvAmax* amax) {
  if (!InfoOf(format).has_global_scale) return std::nullopt;
  std::optional<Interval> range, ratio;
  for (size_t layer = 0; layer < geometry.layers.size(); ++layer) {
    const KvDtype dtype = geometry.layers[layer].dtype;
    if ((side == CacheSide::kK ? dtype.k : dtype.v) != format) continue;
    const auto heads = static_cast<size_t>(geometry.layers[layer].kv_heads);
    const std::vector<float> own = scales.empty() ? std::vector<float>(heads, 1.0f) : scales[layer];
    const auto amax_of = [&](size_t head) {
      return side == CacheSide::kK ? amax->K(layer, head) : amax->V(layer, head);
    };
    const bool shared = std::ranges::all_of(own, [&](float scale) { return scale == own[0]; });
    float largest = 0;
    for (size_t head = 0; head < heads; ++head) {
      Widen(&range, own[head]);
      if (amax == nullptr) continue;
      largest = std::max(largest, amax_of(head));
      if (!shared && amax_of(head) > 0) Widen(&ratio, own[head] / GlobalScaleForAmax(format, amax_of(head)));
    }
    if (shared && largest > 0) Widen(&ratio, own[0] / GlobalScaleForAmax(format, largest));
  }
  if (!range) return std::nullopt;
  return ScaleUse{range->low, range->high, ratio};
}

}  // namespace haypile
