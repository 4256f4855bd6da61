#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/model_geometry.h"

namespace haypile {

// Geometries of public models, written out for tests that must not depend on the config parser. Numbers from the
// models' config.json.

inline LayerGeometry AttentionLayer(int kv_heads, int head_dim, int window = 0) {
  LayerGeometry layer;
  layer.cache = window > 0 ? CacheKind::kSlidingWindow : CacheKind::kFullAttention;
  layer.kv_heads = kv_heads;
  layer.head_dim_k = head_dim;
  layer.head_dim_v = head_dim;
  layer.window = window;
  return layer;
}

inline void AddLayer(ModelGeometry& model, LayerGeometry layer) {
  layer.index = static_cast<int>(model.layers.size());
  model.layers.push_back(std::move(layer));
}

inline ModelGeometry DenseModel(std::string name, std::string type, int layers, int kv_heads, int head_dim,
                                int64_t max_positions) {
  ModelGeometry model;
  model.name = std::move(name);
  model.model_type = std::move(type);
  for (int i = 0; i < layers; ++i) AddLayer(model, AttentionLayer(kv_heads, head_dim));
  model.generic_kv_heads = kv_heads;
  model.generic_head_dim = head_dim;
  model.max_positions = max_positions;
  return model;
}

inline ModelGeometry SmolLm135m() { return DenseModel("smollm2-135m", "llama", 30, 3, 64, 8192); }
inline ModelGeometry Llama8b() { return DenseModel("llama-3.1-8b", "llama", 32, 8, 128, 131072); }

inline ModelGeometry Gemma270m() {
  ModelGeometry model = DenseModel("gemma3-270m", "gemma3_text", 0, 1, 256, 32768);
  for (int i = 0; i < 18; ++i) AddLayer(model, AttentionLayer(1, 256, i % 6 == 5 ? 0 : 512));
  return model;
}

// Qwen3.5-27B, Qwen3.6-27B and Qwen3.8-27B: every fourth of 64 layers attends, the others are gated DeltaNet.
inline ModelGeometry Hybrid27b() {
  ModelGeometry model = DenseModel("qwen3.5-27b", "qwen3_5", 0, 4, 256, 262144);
  LayerGeometry state;
  state.cache = CacheKind::kStateSpace;
  state.state.kind = StateKind::kGatedDeltaNet;
  state.state.conv_kernel = 4;
  state.state.key_heads = 16;
  state.state.value_heads = 48;
  state.state.key_head_dim = 128;
  state.state.value_head_dim = 128;
  for (int i = 0; i < 64; ++i) AddLayer(model, i % 4 == 3 ? AttentionLayer(4, 256) : state);
  return model;
}

// DeepSeek-V3 and Kimi K2: 61 layers with one latent row of 512 + 64 elements.
inline ModelGeometry LatentModel(int index_head_dim = 0) {
  ModelGeometry model = DenseModel("deepseek-v3", "deepseek_v3", 0, 128, 128, 163840);
  LayerGeometry layer;
  layer.cache = CacheKind::kMla;
  layer.kv_lora_rank = 512;
  layer.rope_dim = 64;
  layer.index_head_dim = index_head_dim;
  for (int i = 0; i < 61; ++i) AddLayer(model, layer);
  return model;
}

}  // namespace haypile
