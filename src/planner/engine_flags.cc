#include "planner/engine_flags.h"

#include <fmt/format.h>

namespace haypile {
namespace {

// The common flags that were given, by each engine's names.
struct FlagNames {
  const char* tensor_parallel;
  const char* pipeline_parallel;
  const char* max_model_len;
  const char* block_size;
  const char* batched_tokens;
  const char* max_num_seqs;
};

constexpr FlagNames kVllm{"--tensor-parallel-size", "--pipeline-parallel-size", "--max-model-len",
                          "--block-size",           "--max-num-batched-tokens", "--max-num-seqs"};
constexpr FlagNames kSglang{
    "--tp-size", "--pp-size", "--context-length", "--page-size", "--chunked-prefill-size", "--max-running-requests"};
constexpr FlagNames kTrtllm{"--tp_size", "--pp_size", "--max_seq_len", nullptr, "--max_num_tokens", "--max_batch_size"};

std::string Common(const PlanRequest& request, const FlagNames& names) {
  std::string text;
  const auto add = [&](const char* name, int64_t value) {
    if (name != nullptr) text += fmt::format(" {} {}", name, value);
  };
  if (request.tensor_parallel > 1) add(names.tensor_parallel, request.tensor_parallel);
  if (request.pipeline_parallel > 1) add(names.pipeline_parallel, request.pipeline_parallel);
  if (request.max_model_len > 0) add(names.max_model_len, request.max_model_len);
  if (request.block_size) add(names.block_size, *request.block_size);
  if (request.max_num_batched_tokens) add(names.batched_tokens, *request.max_num_batched_tokens);
  if (request.max_num_seqs) add(names.max_num_seqs, *request.max_num_seqs);
  return text;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

EngineFlags VllmFlags(const ModelGeometry& model, const PlanRequest& request, const MemoryFlag& memory) {
  std::string line =
      "vllm serve " + model.name + Common(request, kVllm) + " --kv-cache-dtype " + request.kv_cache_dtype;
  if (memory.pool_bytes) line += fmt::format(" --kv-cache-memory-bytes {}", *memory.pool_bytes);
  if (memory.utilization) line += fmt::format(" --gpu-memory-utilization {}", *memory.utilization);
  if (request.decode_context_parallel > 1)
    line += fmt::format(" --decode-context-parallel-size {}", request.decode_context_parallel);
  if (request.data_parallel > 1) line += fmt::format(" --data-parallel-size {}", request.data_parallel);
  if (!request.skip_layers.empty()) line += " --kv-cache-dtype-skip-layers" + Joined(request.skip_layers);
  if (request.prefix_caching)
    line += *request.prefix_caching ? " --enable-prefix-caching" : " --no-enable-prefix-caching";
  if (!request.hybrid_kv_cache_manager) line += " --disable-hybrid-kv-cache-manager";
  if (!request.mamba_cache_mode.empty()) line += " --mamba-cache-mode " + request.mamba_cache_mode;
  if (!request.mamba_cache_dtype.empty()) line += " --mamba-cache-dtype " + request.mamba_cache_dtype;
  if (!request.mamba_ssm_cache_dtype.empty()) line += " --mamba-ssm-cache-dtype " + request.mamba_ssm_cache_dtype;
  if (request.speculative) {
    const Speculative& speculative = *request.speculative;
    line += fmt::format(" --speculative-config '{{\"method\": \"{}\"", speculative.method);
    if (!speculative.draft_name.empty()) line += fmt::format(", \"model\": \"{}\"", speculative.draft_name);
    line += fmt::format(", \"num_speculative_tokens\": {}", speculative.tokens);
    if (!speculative.draft_kv_dtype.empty())
      line += fmt::format(", \"kv_cache_dtype\": \"{}\"", speculative.draft_kv_dtype);
    line += "}'";
  }
  const bool asks = !model.checkpoint_kv_dtype.empty();
  return {{line},
          {asks ? "--kv-cache-dtype bfloat16 (with auto the checkpoint brings " + model.checkpoint_kv_dtype + " back)"
                : "--kv-cache-dtype auto"}};
}

EngineFlags SglangFlags(const ModelGeometry& model, const PlanRequest& request, const MemoryFlag& memory) {
  std::string line = "python -m sglang.launch_server --model-path " + model.name + Common(request, kSglang) +
                     " --kv-cache-dtype " + request.kv_cache_dtype;
  if (memory.utilization) line += fmt::format(" --mem-fraction-static {}", *memory.utilization);
  if (request.prefix_caching && !*request.prefix_caching) line += " --disable-radix-cache";
  if (request.max_total_tokens) line += fmt::format(" --max-total-tokens {}", *request.max_total_tokens);
  if (request.max_mamba_cache_size) line += fmt::format(" --max-mamba-cache-size {}", *request.max_mamba_cache_size);
  if (request.speculative) {
    const Speculative& speculative = *request.speculative;
    line += " --speculative-algorithm " + speculative.method;
    if (!speculative.draft_name.empty()) line += " --speculative-draft-model-path " + speculative.draft_name;
    line += fmt::format(" --speculative-num-draft-tokens {}", speculative.tokens);
    if (!speculative.draft_kv_dtype.empty())
      line += " --speculative-draft-kv-cache-dtype " + speculative.draft_kv_dtype;
  }
  return {{line}, {"--kv-cache-dtype bfloat16"}};
}

EngineFlags TrtllmFlags(const ModelGeometry& model, const PlanRequest& request, const MemoryFlag& memory) {
  EngineFlags flags;
  flags.start.push_back("trtllm-serve " + model.name + Common(request, kTrtllm) + " --config config.yaml");
  flags.start.push_back("config.yaml: kv_cache_config: {dtype: " + request.kv_cache_dtype +
                        (request.block_size ? fmt::format(", tokens_per_block: {}", *request.block_size) : "") +
                        (request.prefix_caching
                             ? std::string(", enable_block_reuse: ") + (*request.prefix_caching ? "true" : "false")
                             : "") +
                        (memory.utilization ? fmt::format(", free_gpu_memory_fraction: {}", *memory.utilization) : "") +
                        (memory.pool_bytes ? fmt::format(", max_gpu_total_bytes: {}", *memory.pool_bytes) : "") + "}");
  if (request.kv_cache_dtype == "nvfp4") {
    flags.start.push_back(
        "checkpoint: quantize it offline with ModelOpt (--kv_cache_qformat nvfp4); the flag alone is not documented to "
        "do it");
  }
  flags.roll_back.push_back(model.checkpoint_kv_dtype.empty()
                                ? "config.yaml: kv_cache_config: {dtype: auto}"
                                : "no flag: the checkpoint asks for " + model.checkpoint_kv_dtype +
                                      " and bfloat16 cannot be named; serve a checkpoint without kv_cache_quant_algo");
  return flags;
}

EngineFlags LlamacppFlags(const ModelGeometry& model, const PlanRequest& request) {
  const std::string& dtype = request.kv_cache_dtype;
  const size_t slash = dtype.find('/');
  const std::string keys = dtype.substr(0, slash);
  const std::string values = slash == std::string::npos ? dtype : dtype.substr(slash + 1);
  std::string line = "llama-server -m " + model.name;
  if (request.context_size) line += fmt::format(" -c {}", *request.context_size);
  if (request.parallel_slots > 0) line += fmt::format(" -np {}", request.parallel_slots);
  if (request.ubatch) line += fmt::format(" -ub {}", *request.ubatch);
  if (request.kv_unified) line += " --kv-unified";
  if (request.swa_full) line += " --swa-full";
  const bool plain = values == "f16" || values == "bf16" || values == "f32";
  line += " -ctk " + keys + " -ctv " + values + (plain ? "" : " -fa on");
  return {{line}, {"-ctk f16 -ctv f16"}};
}

}  // namespace

EngineFlags FlagsOf(const ModelGeometry& model, const PlanRequest& request, const MemoryFlag& memory) {
  switch (request.engine) {
    case EngineKind::kVllm:
      return VllmFlags(model, request, memory);
    case EngineKind::kSglang:
      return SglangFlags(model, request, memory);
    case EngineKind::kTrtllm:
      return TrtllmFlags(model, request, memory);
    case EngineKind::kLlamacpp:
      return LlamacppFlags(model, request);
    case EngineKind::kHaypile:
      break;
  }
  return {{"haypile generate " + model.name + " --kv-cache-dtype " + request.kv_cache_dtype},
          {"--kv-cache-dtype bf16"}};
}

}  // namespace haypile
