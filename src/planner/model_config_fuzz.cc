#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/model_config.h"

// A config.json from anywhere: no crash; a geometry that comes out is inside the bounds that sums over it rely on.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = haypile::ParseModelConfig(text, "fuzz", size % 2 == 0 ? std::string_view() : text);
  if (!model.ok()) {
    if (model.error().message().empty()) std::abort();
    return 0;
  }
  const haypile::ModelGeometry& geometry = *model;
  if (geometry.layers.empty() || geometry.layers.size() > 2 * 4096) std::abort();
  if (geometry.parameters < geometry.active_parameters || geometry.parameters < geometry.unquantized_parameters) {
    std::abort();
  }
  for (size_t i = 0; i < geometry.layers.size(); ++i) {
    const haypile::LayerGeometry& layer = geometry.layers[i];
    if (layer.kv_heads < 0 || layer.head_dim_k < 0 || layer.head_dim_v < 0 || layer.window < 0) std::abort();
    if (layer.kv_shared_with >= static_cast<int>(i)) std::abort();
    if (layer.cache == haypile::CacheKind::kFullAttention && layer.kv_heads == 0) std::abort();
  }
  return 0;
}
