#include "planner/model_config_family.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/json.h"
#include "base/text.h"

namespace haypile {
namespace {

using enum WindowRule;
using enum StateFields;

// Defaults are those of the families' published config classes. Families of plain full attention need a row only for
// their traits.
constexpr ConfigFamily kFamilies[] = {
    {.model_type = "llama"},
    {.model_type = "mistral", .window = kWholeModel},
    {.model_type = "ministral3", .window = kWholeModel},
    {.model_type = "mixtral", .window = kWholeModel, .traits = kExpertsUseDenseSize},
    {.model_type = "starcoder2", .window = kWholeModel, .traits = kTied | kPlainFeedForward | kQkvBias},
    {.model_type = "phi3", .window = kWholeModel},
    {.model_type = "phi3_v", .window = kWholeModel},
    {.model_type = "phi4mm", .window = kWholeModel},
    {.model_type = "phimoe", .window = kWholeModel, .traits = kExpertsUseDenseSize},
    {.model_type = "phi", .traits = kPlainFeedForward | kQkvBias},
    {.model_type = "qwen2", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "qwen2_moe", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "qwen2_vl", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "qwen2_vl_text", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "qwen2_5_vl", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "qwen2_5_vl_text", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "qwen2_5_omni_text", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "qwen2_audio", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "qwen3", .window = kFromLayer, .head_dim = 128},
    {.model_type = "qwen3_moe", .window = kFromLayer},
    {.model_type = "qwen3_vl_text", .window = kFromLayer, .head_dim = 128},
    {.model_type = "qwen3_vl_moe_text", .window = kFromLayer},
    {.model_type = "qwen3_omni_moe_text", .window = kFromLayer},
    {.model_type = "qwen3_next", .head_dim = 256, .state = kDeltaNet, .traits = kQueryGate},
    {.model_type = "qwen3_5", .head_dim = 256, .state = kDeltaNet, .traits = kQueryGate},
    {.model_type = "qwen3_5_text", .head_dim = 256, .state = kDeltaNet, .traits = kQueryGate},
    {.model_type = "qwen3_5_moe", .head_dim = 256, .state = kDeltaNet, .traits = kQueryGate},
    {.model_type = "qwen3_5_moe_text", .head_dim = 256, .state = kDeltaNet, .traits = kQueryGate},
    {.model_type = "mimo", .window = kFromLayer, .traits = kQkvBias},
    {.model_type = "mimo_v2_flash"},
    {.model_type = "dots1", .window = kFromLayer},
    {.model_type = "smollm3", .window = kFromLayer, .traits = kTied},
    {.model_type = "gemma", .head_dim = 256, .traits = kTied},
    {.model_type = "gemma2",
     .window = kPeriodic,
     .default_window = 4096,
     .period = 2,
     .head_dim = 256,
     .traits = kTied},
    {.model_type = "gemma3",
     .window = kPeriodic,
     .default_window = 4096,
     .period = 6,
     .head_dim = 256,
     .traits = kTied},
    {.model_type = "gemma3_text",
     .window = kPeriodic,
     .default_window = 4096,
     .period = 6,
     .head_dim = 256,
     .traits = kTied},
    {.model_type = "gemma3n_text",
     .window = kPeriodic,
     .default_window = 512,
     .period = 5,
     .head_dim = 256,
     .traits = kTied | kNoParameterRule},
    {.model_type = "gemma4", .window = kPeriodicLastFull, .head_dim = 256, .traits = kTied},
    {.model_type = "gemma4_text", .window = kPeriodicLastFull, .head_dim = 256, .traits = kTied},
    {.model_type = "cohere", .traits = kTied},
    {.model_type = "cohere2", .window = kPeriodic, .default_window = 4096, .period = 4, .traits = kTied},
    {.model_type = "olmo3", .window = kPeriodic, .default_window = 4096, .period = 4},
    {.model_type = "exaone4", .window = kPeriodic, .period = 0},
    {.model_type = "gpt_oss",
     .window = kPeriodic,
     .default_window = 128,
     .period = 2,
     .head_dim = 64,
     .traits = kExpertsUseDenseSize | kAttentionSinks | kQkvBias},
    {.model_type = "llama4", .head_dim = 128, .traits = kExpertsUseDenseSize},
    {.model_type = "llama4_text", .head_dim = 128, .traits = kExpertsUseDenseSize},
    {.model_type = "deepseek_v2", .traits = kMlaCache},
    {.model_type = "deepseek_v3", .traits = kMlaCache},
    {.model_type = "deepseek_v32", .traits = kMlaCache},
    {.model_type = "deepseek_v4", .traits = kMlaCache},
    {.model_type = "kimi_k2", .traits = kMlaCache},
    {.model_type = "kimi_k25", .traits = kMlaCache},
    {.model_type = "kimi_vl", .traits = kMlaCache},
    {.model_type = "kimi_linear", .state = kKda, .traits = kMlaCache},
    {.model_type = "glm4_moe_lite", .traits = kMlaCache},
    {.model_type = "glm_moe_dsa", .traits = kMlaCache},
    {.model_type = "glm4", .head_dim = 128},
    {.model_type = "glm4_moe", .head_dim = 128},
    {.model_type = "minimax_m2", .traits = kExpertsUseDenseSize},
    {.model_type = "granitemoe", .traits = kExpertsUseDenseSize},
    {.model_type = "granitemoeshared", .traits = kExpertsUseDenseSize},
    {.model_type = "granitemoehybrid", .state = kMamba2Prefixed, .traits = kExpertsUseDenseSize},
    {.model_type = "olmoe", .traits = kExpertsUseDenseSize},
    {.model_type = "bamba", .state = kMamba2Prefixed},
    {.model_type = "falcon_h1", .state = kMamba2Falcon, .traits = kParallelState},
    {.model_type = "nemotron", .traits = kPlainFeedForward},
    {.model_type = "nemotron_h", .state = kMamba2Nemotron, .traits = kPlainFeedForward},
    {.model_type = "zamba2", .state = kMamba2Zamba, .traits = kNoParameterRule},
    {.model_type = "jamba", .state = kMamba1Prefixed, .traits = kExpertsUseDenseSize},
    {.model_type = "mamba", .state = kMamba1, .traits = kTied},
    {.model_type = "falcon_mamba", .state = kMamba1},
    {.model_type = "mamba2", .state = kMamba2},
    {.model_type = "lfm2", .state = kShortConv, .traits = kTied},
    {.model_type = "lfm2_moe", .state = kShortConv, .traits = kTied},
    {.model_type = "gpt2", .traits = kTied | kPlainFeedForward | kQkvBias | kLearnedPositions},
    {.model_type = "gpt_bigcode", .traits = kTied | kPlainFeedForward | kQkvBias | kLearnedPositions},
    {.model_type = "gpt_neox", .traits = kPlainFeedForward | kQkvBias},
    {.model_type = "gptj", .traits = kPlainFeedForward},
    {.model_type = "opt", .traits = kTied | kPlainFeedForward | kQkvBias | kLearnedPositions},
    {.model_type = "bloom", .traits = kTied | kPlainFeedForward | kQkvBias},
    {.model_type = "mpt", .traits = kTied | kPlainFeedForward},
    {.model_type = "falcon", .traits = kTied | kPlainFeedForward},
    {.model_type = "RefinedWeb", .traits = kTied | kPlainFeedForward},
    {.model_type = "RefinedWebModel", .traits = kTied | kPlainFeedForward},
    {.model_type = "dbrx", .traits = kNoParameterRule},
    {.model_type = "chatglm", .traits = kQkvBias},
    {.model_type = "t5", .traits = kEncoderDecoder | kNoParameterRule},
    {.model_type = "mt5", .traits = kEncoderDecoder | kNoParameterRule},
    {.model_type = "bart", .traits = kEncoderDecoder | kNoParameterRule},
    {.model_type = "mbart", .traits = kEncoderDecoder | kNoParameterRule},
    {.model_type = "whisper", .traits = kEncoderDecoder | kNoParameterRule},
    {.model_type = "mllama_text_model"},
    {.model_type = "laguna", .traits = kNoParameterRule},
    {.model_type = "nemotron-nas", .traits = kNoParameterRule},
};

// Families whose caches are known to be none of those that this program counts.
struct Refused {
  std::string_view model_type;
  std::string_view why;
};
constexpr Refused kRefused[] = {
    {"minicpm3", "engines differ in whether they cache its latent row or whole heads"},
    {"longcat_flash", "a layer holds two attention caches"},
    {"rwkv", "an RWKV state is not understood"},
    {"rwkv5", "an RWKV state is not understood"},
    {"rwkv6", "an RWKV state is not understood"},
    {"rwkv7", "an RWKV state is not understood"},
    {"recurrent_gemma", "an RG-LRU state is not understood"},
    {"minimax", "a lightning-attention state is not understood"},
    {"minimax_text_01", "a lightning-attention state is not understood"},
    {"minimax_m1", "a lightning-attention state is not understood"},
    {"minimax_m3", "its sparse-attention index cache is not understood"},
    {"plamo2", "its state layers are not understood"},
    {"bert", "an encoder keeps no cache between tokens"},
    {"roberta", "an encoder keeps no cache between tokens"},
    {"xlm-roberta", "an encoder keeps no cache between tokens"},
    {"modernbert", "an encoder keeps no cache between tokens"},
};

// Fields that only one family has, for reduced configs without a model type.
struct TellingField {
  std::string_view field;
  std::string_view model_type;
};
constexpr TellingField kTellingFields[] = {
    {"hybrid_override_pattern", "nemotron_h"},
    {"linear_attn_config", "kimi_linear"},
    {"linear_num_key_heads", "qwen3_next"},
    {"attn_layer_period", "jamba"},
    {"compress_ratios", "deepseek_v4"},
    {"kv_lora_rank", "deepseek_v3"},
    {"mamba_n_heads", "granitemoehybrid"},
    {"conv_L_cache", "lfm2"},
    {"global_head_dim", "gemma4"},
    {"sliding_window_pattern", "gemma3_text"},
    {"attention_chunk_size", "llama4_text"},
};

const ConfigFamily* ByType(std::string_view model_type) {
  for (const ConfigFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string Letters(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      letters += LowerCase(c);
    }
  }
  return letters;
}

// "DeepseekV4ForCausalLM" and "deepseek_v4" are one family.
template <typename Row, size_t kCount>
const Row* ByArchitecture(const Row (&rows)[kCount], std::string_view architecture) {
  for (const std::string_view ending : {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel"}) {
    if (!architecture.ends_with(ending)) continue;
    const std::string letters = Letters(architecture.substr(0, architecture.size() - ending.size()));
    for (const Row& row : rows) {
      if (Letters(row.model_type) == letters) return &row;
    }
  }
  return nullptr;
}

Status RefuseKnownOddities(const ConfigObject& config, std::string_view model_type, std::string_view architecture) {
  const Refused* found = ByArchitecture(kRefused, architecture);
  for (const Refused& refused : kRefused) {
    if (refused.model_type == model_type) found = &refused;
  }
  if (found == nullptr) return {};
  return config.Unsupported("architecture '" + std::string(model_type.empty() ? architecture : model_type) +
                            "' is not supported: " + std::string(found->why));
}

// Parts of a field's name that tell of caches this program would have to know.
constexpr std::string_view kTellingParts[] = {
    "mamba",       "ssm",        "linear_attn", "lightning", "conv_",        "_conv",         "sparse",
    "compress",    "chunk",      "recurr",      "rwkv",      "lru_",         "window",        "sliding",
    "hybrid",      "block_type", "layer_type",  "layers_t",  "kv_shar",      "shared_kv",     "share_kv",
    "lora_rank",   "index_topk", "index_head",  "indexer",   "use_cla",      "cla_share",     "cross_att",
    "attn_type",   "swa_",       "state_size",  "retention", "block_config", "delta_",        "attn_layer",
    "memory_size", "per_layer_", "ring_att",    "num_kv_",   "nsa_",         "attention_type"};

// Fields that match, but change nothing that a layer keeps.
constexpr std::string_view kHarmlessFields[] = {
    "chunk_size_feed_forward",
    "use_conv_bias",
    "conv_bias",
    "conv_act",
    "mamba_conv_bias",
    "mamba_proj_bias",
    "mamba_hidden_act",
    "mamba_dt_rank",
    "mamba_rms_norm",
    "mamba_norm_before_gate",
    "use_mamba_kernels",
    "decoder_sparse_step",
    "index_topk",
    "index_n_heads",
    "add_cross_attention",
    "activation_sparsity_pattern",
    "hidden_size_per_layer_input",
    "vocab_size_per_layer_input",
    "max_window_layers",
    "hybrid_layer_ids",    // of Zamba 2, whose layers_block_type says the same
    "layer_types_counts",  // of the reduced rows that people pass on: the counts say no order
};

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Whether a field's name tells of a cache. Fields about rotary positions never do.
bool TellsOfCache(const std::string& field) {
  if (std::find(std::begin(kHarmlessFields), std::end(kHarmlessFields), field) != std::end(kHarmlessFields)) {
    return false;
  }
  const std::string lower = LowerCase(field);
  for (const std::string_view rotary : {"rope_theta", "rope_param", "rope_scaling", "rope_interleave"}) {
    if (Contains(lower, rotary)) return false;
  }
  return std::any_of(std::begin(kTellingParts), std::end(kTellingParts),
                     [&lower](std::string_view part) { return Contains(lower, part); });
}

}  // namespace

Result<ConfigFamily> FindFamily(const ConfigObject& config, std::string_view model_type,
                                std::string_view architecture) {
  HAYPILE_TRY(RefuseKnownOddities(config, model_type, architecture));
  if (const ConfigFamily* family = ByType(model_type)) return *family;
  if (const ConfigFamily* family = ByArchitecture(kFamilies, architecture)) return *family;
  if (!model_type.empty() || !architecture.empty()) return ConfigFamily{};
  for (const TellingField& telling : kTellingFields) {
    if (config.IsSet(telling.field)) return *ByType(telling.model_type);
  }
  return ConfigFamily{};
}

Status RefuseUnreadCacheFields(const ConfigObject& config) {
  for (const std::string& field : config.Unread()) {
    if (!TellsOfCache(field) || !config.IsSet(field)) continue;
    return config.Unsupported("field " + config.Quoted(field) + " is " + ShortText(*config.Find(field)) +
                              ", which is not understood for this architecture and may change what its layers cache");
  }
  return {};
}

}  // namespace haypile
