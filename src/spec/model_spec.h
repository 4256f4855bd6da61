#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace haypile {

enum class ModelFamily { kLlama, kQwen2, kQwen3, kGemma3 };
std::string FamilyName(ModelFamily family);  // "llama", "qwen2", "qwen3", "gemma3"

enum class RopeKind { kDefault, kLinear, kLlama3, kYarn };

// Rotary position embedding of one kind of layer, by the field's names of config.json.
struct RopeSpec {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                     // linear, llama3, yarn
  double low_freq_factor = 1.0;            // llama3
  double high_freq_factor = 4.0;           // llama3
  int64_t original_max_position = 0;       // llama3, yarn
  double beta_fast = 32.0;                 // yarn
  double beta_slow = 1.0;                  // yarn
  std::optional<double> attention_factor;  // yarn; derived from factor when absent
  // Frequency divisors per dim pair that a GGUF carries in rope_freqs.weight; empty: none.
  std::vector<float> frequency_factors;
};

// One decoder layer's attention: `window` 0 means full attention, otherwise a token sees itself and window-1 before.
struct LayerSpec {
  int window = 0;
  bool uses_local_rope = false;  // gemma3 sliding layers
};

// Everything a decoder-only forward pass and the KV geometry need, from config.json or GGUF metadata alike.
// Shapes: L layers, Hq query heads, Hkv KV heads, D head dim, H hidden, F feed-forward, V vocabulary.
struct ModelSpec {
  ModelFamily family = ModelFamily::kLlama;
  std::string architecture;   // as the file spells it, for messages
  int layer_count = 0;        // L
  int hidden_size = 0;        // H
  int query_heads = 0;        // Hq
  int kv_heads = 0;           // Hkv
  int head_dim = 0;           // D
  int feed_forward_size = 0;  // F
  int vocabulary_size = 0;    // V
  int64_t max_positions = 0;  // context length the model was made for
  float norm_epsilon = 1e-5f;
  float query_scale = 0.0f;  // multiplies q.k; 1/sqrt(D) unless the model says otherwise
  bool tied_output = false;
  bool qkv_bias = false;         // qwen2
  bool qk_norm = false;          // qwen3, gemma3
  float embedding_scale = 1.0f;  // sqrt(H) for gemma3
  RopeSpec rope;
  RopeSpec local_rope;            // gemma3 sliding layers
  std::vector<LayerSpec> layers;  // L entries

  int group_size() const { return query_heads / kv_heads; }
};

// Elements of all weights, biases and norms; a tied output matrix counts once.
int64_t ParameterCount(const ModelSpec& model);

}  // namespace haypile
