#include "spec/model_spec.h"

namespace haypile {

std::string FamilyName(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "llama";
    case ModelFamily::kQwen2:
      return "qwen2";
    case ModelFamily::kQwen3:
      return "qwen3";
    case ModelFamily::kGemma3:
      return "gemma3";
  }
  return "unknown";
}

int64_t ParameterCount(const ModelSpec& model) {
  const int64_t hidden = model.hidden_size, head_dim = model.head_dim;
  const int64_t query_width = model.query_heads * head_dim, kv_width = model.kv_heads * head_dim;
  int64_t layer = hidden * (query_width + 2 * kv_width) + query_width * hidden;  // q, k, v, o
  layer += int64_t{3} * hidden * model.feed_forward_size;                        // gate, up, down
  layer += (model.family == ModelFamily::kGemma3 ? 4 : 2) * hidden;              // norms
  if (model.qkv_bias) layer += query_width + 2 * kv_width;
  if (model.qk_norm) layer += 2 * head_dim;
  const int64_t embedding = int64_t{model.vocabulary_size} * hidden;
  return model.layer_count * layer + embedding * (model.tied_output ? 1 : 2) + hidden;
}

}  // namespace haypile
