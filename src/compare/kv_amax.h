#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json_fwd.h"
#include "evaluate/verdict.h"
#include "models/kv_observer.h"
#include "spec/kv_geometry.h"
#include "spec/model_spec.h"

namespace haypile {

// The largest finite magnitude of K and of V that a model wrote, for each layer and KV head.
class KvAmax : public KvObserver {
 public:
  explicit KvAmax(const ModelSpec& spec);

  void OnKv(int layer, const float* k, const float* v, int64_t rows) override;
  void Merge(const KvAmax& other);

  float K(size_t layer, size_t head) const { return k_[layer * heads_ + head]; }
  float V(size_t layer, size_t head) const { return v_[layer * heads_ + head]; }

  Json ToJson() const;
  // False for JSON that is not of this model, which changes nothing.
  bool FromJson(const Json& json);

 private:
  size_t heads_, head_dim_;
  std::vector<float> k_, v_;  // [layer][head]
};

// The scales of one side as a verdict judges them; nothing for a format without a scale. `amax` may be null: nothing
// was seen. Layers that keep another format do not count. A scale that all heads of a layer share is held to the
// largest of them.
enum class CacheSide { kK, kV };
std::optional<ScaleUse> ScaleUseOf(CacheSide side, const KvGeometry& geometry, KvFormat format,
                                   const std::vector<std::vector<float>>& scales, const KvAmax* amax);

}  // namespace haypile
