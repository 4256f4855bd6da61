#include "checkpoint/tensor_plan.h"

#include <string_view>

#include "base/check.h"

namespace haypile {
namespace {

void PlanAttention(const ModelSpec& spec, const std::string& layer, std::vector<PlannedTensor>* plan) {
  const std::string attention = layer + "self_attn.";
  const int64_t query_rows = int64_t{spec.query_heads} * spec.head_dim;
  const int64_t kv_rows = int64_t{spec.kv_heads} * spec.head_dim;
  plan->push_back({attention + "q_proj.weight", {query_rows, spec.hidden_size}, false, spec.query_heads});
  plan->push_back({attention + "k_proj.weight", {kv_rows, spec.hidden_size}, false, spec.kv_heads});
  plan->push_back({attention + "v_proj.weight", {kv_rows, spec.hidden_size}});
  if (spec.qkv_bias) {
    plan->push_back({attention + "q_proj.bias", {query_rows}, false, spec.query_heads});
    plan->push_back({attention + "k_proj.bias", {kv_rows}, false, spec.kv_heads});
    plan->push_back({attention + "v_proj.bias", {kv_rows}});
  }
  if (spec.qk_norm) {
    plan->push_back({attention + "q_norm.weight", {spec.head_dim}, true});
    plan->push_back({attention + "k_norm.weight", {spec.head_dim}, true});
  }
  plan->push_back({attention + "o_proj.weight", {spec.hidden_size, query_rows}});
}

struct NamePair {
  std::string_view ours;
  std::string_view gguf;
};

constexpr NamePair kTopNames[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

constexpr NamePair kGemma3LayerNames[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

constexpr NamePair kLayerNames[] = {
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

std::string_view GgufLayerPart(std::string_view part, ModelFamily family) {
  if (family == ModelFamily::kGemma3) {
    for (const NamePair& pair : kGemma3LayerNames) {
      if (pair.ours == part) return pair.gguf;
    }
  }
  for (const NamePair& pair : kLayerNames) {
    if (pair.ours == part) return pair.gguf;
  }
  return "";
}

}  // namespace

std::vector<PlannedTensor> PlanTensors(const ModelSpec& spec) {
  const int64_t hidden = spec.hidden_size;
  const int64_t feed_forward = spec.feed_forward_size;
  std::vector<PlannedTensor> plan;
  plan.push_back({"embed_tokens.weight", {spec.vocabulary_size, hidden}});
  for (int i = 0; i < spec.layer_count; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    plan.push_back({layer + "input_layernorm.weight", {hidden}, true});
    PlanAttention(spec, layer, &plan);
    plan.push_back({layer + "post_attention_layernorm.weight", {hidden}, true});
    if (spec.family == ModelFamily::kGemma3) {
      plan.push_back({layer + "pre_feedforward_layernorm.weight", {hidden}, true});
      plan.push_back({layer + "post_feedforward_layernorm.weight", {hidden}, true});
    }
    plan.push_back({layer + "mlp.gate_proj.weight", {feed_forward, hidden}});
    plan.push_back({layer + "mlp.up_proj.weight", {feed_forward, hidden}});
    plan.push_back({layer + "mlp.down_proj.weight", {hidden, feed_forward}});
  }
  plan.push_back({"norm.weight", {hidden}, true});
  if (!spec.tied_output) plan.push_back({"lm_head.weight", {spec.vocabulary_size, hidden}});
  return plan;
}

std::string GgufTensorName(const std::string& name, ModelFamily family) {
  for (const NamePair& pair : kTopNames) {
    if (pair.ours == name) return std::string(pair.gguf);
  }
  // "layers.N.PART.weight" or ".bias"
  const size_t number = name.find('.') + 1;
  const size_t part = name.find('.', number) + 1;
  const size_t kind = name.rfind('.');
  HAYPILE_CHECK(name.starts_with("layers.") && part > number && kind > part);
  const std::string_view translated = GgufLayerPart(std::string_view(name).substr(part, kind - part), family);
  HAYPILE_CHECK(!translated.empty());
  return "blk." + name.substr(number, part - number) + std::string(translated) + name.substr(kind);
}

}  // namespace haypile
