#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace haypile {

// What one layer keeps between tokens.
enum class CacheKind {
  kNone,              // feed-forward only, or reads another layer's cache (kv_shared_with)
  kFullAttention,     // K and V of every token
  kSlidingWindow,     // K and V of the last `window` tokens
  kChunkedAttention,  // K and V of the current chunk of `window` tokens (Llama 4)
  kMla,               // one latent row of every token, shared by all heads
  kStateSpace,        // a state of fixed size per request
  kCrossAttention,    // K and V of the encoder's tokens
};

// The recurrences with a state of fixed size, by the names the engines use.
enum class StateKind { kMamba1, kMamba2, kGatedDeltaNet, kKda, kShortConv };

// The shape of a recurrent layer's state, for the whole model (not one rank). Only the fields of its kind are set.
struct StateShape {
  StateKind kind = StateKind::kMamba2;
  int conv_kernel = 0;       // K: the convolution keeps K-1 columns
  int key_heads = 0;         // gated DeltaNet, KDA
  int value_heads = 0;       // gated DeltaNet, KDA; heads of Mamba 2
  int key_head_dim = 0;      // gated DeltaNet, KDA
  int value_head_dim = 0;    // gated DeltaNet, KDA; head dim of Mamba 2
  int64_t intermediate = 0;  // Mamba 1 and 2: inner width; short convolution: its width
  int state_size = 0;        // Mamba 1 and 2
  int groups = 0;            // Mamba 2
  int chunk_size = 0;        // Mamba 2: the kernel's chunk, 0 where the config has none
};

// What one decoder layer keeps, for the whole model (not one rank). A layer that keeps two things has two entries, in
// the order in which it computes them: attention and state (Zamba 2, Falcon-H1), own and cross attention
// (encoder-decoder).
struct LayerGeometry {
  int index = 0;  // of the decoder layer, from 0, as engines number them; entries of one layer share it
  CacheKind cache = CacheKind::kFullAttention;
  int kv_heads = 0;
  int head_dim_k = 0;
  int head_dim_v = 0;
  int window = 0;           // sliding: tokens seen; chunked: chunk length
  int kv_shared_with = -1;  // the position in `layers` whose cache this one reads (cache is kNone); -1: none
  // MLA: one row of kv_lora_rank + rope_dim elements a token; the indexer of sparse attention keeps index_head_dim
  // more (0: none).
  int kv_lora_rank = 0;
  int rope_dim = 0;
  // The same layer's heads decompressed, for engines that cache them so, are kv_heads, head_dim_k and head_dim_v.
  int index_head_dim = 0;
  // MLA: tokens that one row stands for. 1: every token has its row. DeepSeek-V4: a layer keeps the rows of the last
  // `window` tokens, and a compressed row of every compress_ratio tokens besides (0: none).
  int compress_ratio = 1;
  StateShape state;  // kStateSpace
};

// How the checkpoint says its weights are stored.
struct WeightFormat {
  std::string name;      // "bfloat16", "fp8", "nvfp4", "mxfp4", "int4", ... as the config says, for people
  double bits = 16.0;    // per quantized weight, scales included
  bool assumed = false;  // true: the config does not say
};

// What a plan needs to know of a model, from config.json or GGUF metadata alike; no tensor is read.
struct ModelGeometry {
  std::string name;          // as the user named it, for messages
  std::string architecture;  // "architectures"[0] of config.json, or the GGUF architecture
  std::string model_type;
  std::vector<LayerGeometry> layers;
  int query_heads = 0;
  int hidden_size = 0;
  int64_t vocabulary_size = 0;
  int64_t max_positions = 0;  // the longest context the model says it serves
  int generic_kv_heads = 0;   // num_key_value_heads and head_dim as the config gives them for the model as a whole
  int generic_head_dim = 0;
  int model_dtype_bytes = 2;   // of the dtype the engine runs the model in (bfloat16: 2)
  int state_dtype_bytes = 0;   // of the recurrent state where the config names a dtype; 0: the engine's default
  int64_t encoder_tokens = 0;  // cross attention: most encoder tokens of one request
  std::vector<LayerGeometry> mtp_layers;  // multi-token-prediction layers that --speculative mtp runs
  bool attention_sinks = false;
  // Weights, when no file tells: parameters that the config implies, and the format it declares.
  int64_t parameters = 0;              // all of them
  int64_t active_parameters = 0;       // read for one token (mixture of experts: fewer)
  int64_t unquantized_parameters = 0;  // of `parameters`, those that `weights` leaves at the model's dtype: embeddings,
                                       // the output head, norms, and modules that the config excludes
  bool tied_embeddings = false;        // the output matrix is the input embedding; quantizers keep both in 16 bits
  WeightFormat weights;
  std::optional<int64_t> weight_bytes;  // measured from safetensors headers or a GGUF
  // KV dtype that the checkpoint itself asks for (hf_quant_config, compressed-tensors kv_cache_scheme): "fp8",
  // "nvfp4"; empty: none.
  std::string checkpoint_kv_dtype;
  // What config.json and hf_quant_config.json say when they disagree about the KV dtype, for a warning; else empty.
  std::string checkpoint_kv_conflict;
  std::string quantization_method;  // quantization_config.quant_method, lower case; empty: none
};

std::string CacheKindName(CacheKind kind);  // "full attention", "sliding window", ... for people and --json
std::string StateKindName(StateKind kind);  // "mamba1", "mamba2", "gated_deltanet", "kda", "short_conv"

}  // namespace haypile
