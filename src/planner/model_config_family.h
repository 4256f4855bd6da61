#pragma once

#include <cstdint>
#include <string_view>

#include "planner/model_config_fields.h"

namespace haypile {

// How a family's layers slide when its config lists no layer types.
enum class WindowRule {
  kUnknown,          // a window that is set cannot be placed: refused
  kWholeModel,       // every layer slides (Mistral)
  kFromLayer,        // use_sliding_window: the layers from max_window_layers on (Qwen 2 and 3)
  kPeriodic,         // the last layer of every `period` is full, the others slide (Gemma 2 and 3, Cohere 2, OLMo 3)
  kPeriodicLastFull  // the same, and the model's last layer is full (Gemma 4)
};

// What kind of layer holds a state of fixed size, by the fields that describe it.
enum class StateFields {
  kNone,
  kDeltaNet,        // linear_num_key_heads, ...
  kMamba1,          // state_size, conv_kernel, expand (Mamba, Falcon-Mamba)
  kMamba1Prefixed,  // mamba_d_state, mamba_d_conv, mamba_expand (Jamba)
  kMamba2,          // num_heads, head_dim, state_size, n_groups (Mamba 2)
  kMamba2Prefixed,  // mamba_n_heads, mamba_d_head, mamba_d_state, ... (Granite 4, Bamba)
  kMamba2Nemotron,  // mamba_num_heads, mamba_head_dim, ssm_state_size, ... (Nemotron-H)
  kMamba2Zamba,     // n_mamba_heads, mamba_headdim, mamba_d_state, ... (Zamba 2)
  kMamba2Falcon,    // mamba_d_ssm and the names of kMamba2Prefixed (Falcon-H1)
  kKda,             // linear_attn_config (Kimi-Linear)
  kShortConv,       // conv_L_cache (LFM2)
};

// The shape of a family's feed-forward part that no field tells.
enum FamilyTraits : uint32_t {
  kTied = 1,                 // input and output embeddings are one tensor unless the config says otherwise
  kPlainFeedForward = 2,     // two matrices, not three
  kQkvBias = 4,              // Q, K and V have biases without a field that says so
  kExpertsUseDenseSize = 8,  // experts have intermediate_size
  kMlaCache = 16,            // kv_lora_rank means that engines cache the latent row
  kQueryGate = 32,           // the query projection carries a gate of its own size
  kLearnedPositions = 64,
  kAttentionSinks = 128,
  kEncoderDecoder = 256,
  kParallelState = 512,  // every layer has attention and a state
  kNoParameterRule = 1024,
};

// What a family's published config classes and model code mean by fields that configs leave out.
struct ConfigFamily {
  std::string_view model_type;
  WindowRule window = WindowRule::kUnknown;
  int default_window = 0;  // 0: the field must be there
  int period = 0;          // kPeriodic: 0: the config must tell
  int head_dim = 0;        // 0: hidden_size / heads
  StateFields state = StateFields::kNone;
  uint32_t traits = 0;

  bool Is(FamilyTraits trait) const { return (traits & trait) != 0; }
};

// By the model type of the text part, else by the architecture, else by fields that only one family has. A family of no
// known name has an empty model_type: plain decoder layers. kUnsupported names a family whose cache is known to differ.
Result<ConfigFamily> FindFamily(const ConfigObject& config, std::string_view model_type, std::string_view architecture);

// kUnsupported when a field that nothing has read looks as if it changed what a layer caches.
Status RefuseUnreadCacheFields(const ConfigObject& config);

}  // namespace haypile
