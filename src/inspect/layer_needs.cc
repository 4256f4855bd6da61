#include "inspect/layer_needs.h"

#include <map>
#include <set>
#include <string_view>

#include "checkpoint/kv_scale_name.h"

namespace haypile {
namespace {

struct Projections {
  bool k = false;
  bool v = false;
  bool fused = false;
};

std::map<int, Projections> ProjectionsByLayer(const CheckpointHeaders& headers) {
  std::map<int, Projections> layers;
  for (const HeaderTensor& tensor : headers.tensors) {
    const std::string_view name = tensor.name;
    const bool k = name.find(".k_proj.") != name.npos, v = name.find(".v_proj.") != name.npos;
    const bool fused = name.find(".qkv_proj.") != name.npos || name.find(".query_key_value.") != name.npos ||
                       name.find(".c_attn.") != name.npos || name.find(".kv_b_proj.") != name.npos;
    if (!k && !v && !fused) continue;
    const TensorPlace place = PlaceOfTensor(name);
    if (place.layer < 0 || place.stack != LayerStack::kDecoder) continue;
    Projections& found = layers[place.layer];
    found.k |= k;
    found.v |= v;
    found.fused |= fused;
  }
  return layers;
}

// Layers that have KV scales have a cache.
std::set<int> LayersWithScales(const CheckpointHeaders& headers) {
  std::set<int> layers;
  for (const HeaderTensor& tensor : headers.tensors) {
    const auto name = ParseKvScaleName(tensor.name);
    const bool scale = name && name->place.stack == LayerStack::kDecoder && name->place.layer >= 0;
    // A projection's bias is no scale.
    if (scale && name->kind != KvScaleKind::kBias) layers.insert(name->place.layer);
  }
  return layers;
}

bool KeepsKv(CacheKind kind) {
  return kind != CacheKind::kNone && kind != CacheKind::kStateSpace && kind != CacheKind::kCrossAttention;
}

// With attention_k_eq_v the layers that see everything are those whose V is K (Gemma 4).
std::set<int> FullAttentionLayers(const ModelGeometry* geometry) {
  std::set<int> layers;
  if (geometry == nullptr) return layers;
  for (const LayerGeometry& layer : geometry->layers) {
    if (layer.cache == CacheKind::kFullAttention) layers.insert(layer.index);
  }
  return layers;
}

}  // namespace

std::vector<KvLayerNeed> KvLayersOf(const ModelGeometry* geometry, const CheckpointHeaders& headers,
                                    const QuantizationDeclaration& declaration) {
  const std::map<int, Projections> projections = ProjectionsByLayer(headers);
  std::map<int, KvLayerNeed> needs;
  if (geometry != nullptr) {
    for (const LayerGeometry& layer : geometry->layers) {
      if (!KeepsKv(layer.cache)) continue;
      needs[layer.index] = {.layer = layer.index, .kv_heads = layer.kv_heads, .v = layer.cache != CacheKind::kMla};
    }
  } else {
    for (const auto& [layer, found] : projections) needs[layer] = {.layer = layer};
    for (const int layer : LayersWithScales(headers)) needs[layer] = {.layer = layer};
  }
  const std::set<int> full = FullAttentionLayers(geometry);
  std::vector<KvLayerNeed> result;
  for (auto& [layer, need] : needs) {
    const auto found = projections.find(layer);
    const bool only_k =
        found == projections.end() ? full.contains(layer) : found->second.k && !found->second.v && !found->second.fused;
    if (declaration.k_eq_v && only_k) {
      need.v_is_k = true;
      need.v = false;
    }
    result.push_back(need);
  }
  return result;
}

}  // namespace haypile
