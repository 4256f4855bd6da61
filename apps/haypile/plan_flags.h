#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/plan_job.h"

namespace CLI {
class App;
}

namespace haypile {

// The flags of `haypile plan` as typed. Numbers that engines let people write with units stay texts until MakeJob.
struct PlanFlags {
  std::string model;
  std::string engine = "vllm", engine_version, device;
  std::string gpu, gpu_file, gpu_memory;
  std::optional<int> gpu_count;
  std::optional<int> tensor_parallel, pipeline_parallel, decode_context_parallel, data_parallel;
  std::optional<std::string> kv_cache_dtype;
  std::string max_model_len, pool_bytes, block_size, batched_tokens, max_num_seqs;
  std::optional<double> vllm_utilization, mem_fraction_static, free_memory_fraction;
  bool prefix_caching = false, no_prefix_caching = false;
  bool no_hybrid_manager = false, async_scheduling = false, no_async_scheduling = false;
  std::string mamba_cache_mode, mamba_cache_dtype, mamba_ssm_cache_dtype, model_dtype, blocks_override;
  std::vector<std::string> skip_layers;
  std::string speculative, speculative_config, draft_kv_dtype;
  std::string speculative_algorithm, speculative_draft_model, speculative_draft_tokens;
  std::optional<double> acceptance_length;
  std::string weights_dtype, weights_bytes, overhead;
  bool enforce_eager = false;
  std::optional<double> swa_ratio, mamba_ratio;
  std::string mamba_cache_size, max_running_requests, max_total_tokens;
  std::string context_size, batch, ubatch, cache_type_k, cache_type_v, flash_attention;
  std::optional<int> slots;
  bool kv_unified = false, swa_full = false;
  std::string sequence_length, length_distribution;
  std::vector<std::string> solve;
  bool solve_given = false;
  std::optional<double> requests, load;
  bool explain = false, json = false;
  bool ignored = false;  // flags of engines that change no pool
};

// Registers all flags with `command`, under the engines' own names.
void AddPlanFlags(CLI::App& command, PlanFlags& flags);

// Reads the model and the files that flags name, and turns the texts into a job. kInvalidArgument names the flag.
Result<PlanJob> MakeJob(const PlanFlags& flags);

}  // namespace haypile
