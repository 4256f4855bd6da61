#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"

namespace haypile {

enum class EngineKind { kVllm, kSglang, kTrtllm, kLlamacpp, kHaypile };
std::string EngineName(EngineKind engine);              // "vllm", "sglang", "trtllm", "llamacpp", "haypile"
Result<EngineKind> ParseEngine(std::string_view name);  // kInvalidArgument lists the known names

// An engine's version, compared by its numbers: "0.32.0", "v0.19", "1.4.0rc4", "b9749" (llama.cpp: major is the build).
struct EngineVersion {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const EngineVersion&) const = default;
  std::string Text() const;
};
Result<EngineVersion> ParseEngineVersion(std::string_view text);
EngineVersion NewestKnownVersion(EngineKind engine);  // what a plan assumes when the user names none

enum class DeviceKind { kGpu, kCpu };

// --speculative METHOD:DRAFT:N. `draft` is null for methods without a drafter of their own (mtp, ngram).
struct Speculative {
  std::string method;  // "mtp", "eagle", "eagle3", "draft_model", "ngram", "dflash", ...
  std::shared_ptr<const ModelGeometry> draft;
  std::string draft_name;
  int tokens = 0;              // N: tokens proposed per pass
  std::string draft_kv_dtype;  // empty: as the target's
};

// Everything that decides a pool besides the model, by the engines' own flag names. Bytes are per rank. An unset
// optional takes the engine's default at the asked version.
struct PlanRequest {
  EngineKind engine = EngineKind::kVllm;
  EngineVersion version;
  DeviceKind device = DeviceKind::kGpu;
  int gpu_sm = 0;                       // compute capability x 10 (H100: 90, B200: 100); 0: unknown
  int64_t gpu_memory_bytes = 0;         // of one device; 0: unknown (decides vLLM's default max_num_batched_tokens)
  int tensor_parallel = 1;              // --tp
  int pipeline_parallel = 1;            // --pp
  int decode_context_parallel = 1;      // --dcp
  int data_parallel = 1;                // --dp
  std::string kv_cache_dtype = "auto";  // the engine's own spelling; llama.cpp and Haypile: one name or K/V
  std::vector<int64_t> pool_bytes_per_rank;  // bytes for the KV cache; one entry: every rank alike
  int64_t max_model_len = 0;                 // 0: the model's own
  std::optional<int64_t> block_size;         // --block-size, --page-size, tokens_per_block
  std::optional<int64_t> max_num_batched_tokens;
  std::optional<int64_t> max_num_seqs;
  std::optional<bool> prefix_caching;
  bool hybrid_kv_cache_manager = true;  // false: --disable-hybrid-kv-cache-manager
  std::optional<bool> async_scheduling;
  std::string mamba_cache_mode;       // --mamba-cache-mode none|align|all; empty: the engine's default
  std::string mamba_cache_dtype;      // "", "auto", "float16", "bfloat16", "float32"
  std::string mamba_ssm_cache_dtype;  // the same values
  std::optional<int64_t> num_gpu_blocks_override;
  std::vector<std::string> skip_layers;  // --kv-cache-dtype-skip-layers, each argument as typed
  std::optional<Speculative> speculative;
  // SGLang
  // False: pool_bytes_per_rank is the pool of tokens alone, what the engine prints as K size + V size, and states come
  // on top. True: it is all that --mem-fraction-static leaves after the weights, to be split between both.
  bool pool_includes_states = false;
  double swa_full_tokens_ratio = 0.8;    // --swa-full-tokens-ratio
  double mamba_full_memory_ratio = 0.9;  // --mamba-full-memory-ratio
  std::optional<int64_t> max_mamba_cache_size;
  std::optional<int64_t> max_running_requests;
  std::optional<int64_t> max_total_tokens;  // also TensorRT-LLM's max_tokens
  // llama.cpp
  std::optional<int64_t> context_size;  // -c
  int parallel_slots = 0;               // -np; 0: the server's default
  std::optional<int64_t> batch;         // -b
  std::optional<int64_t> ubatch;        // -ub
  std::string flash_attention;          // -fa on|off|auto; empty: auto
  bool kv_unified = false;              // --kv-unified
  bool swa_full = false;                // --swa-full
};

}  // namespace haypile
