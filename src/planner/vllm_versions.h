#pragma once

#include <string>
#include <vector>

#include "planner/plan_request.h"

namespace haypile {

// What changed between releases of vLLM in how it sizes and reports its KV pool. Each pivot is a public release; the
// pull requests and their merge dates stand beside the rules in vllm_versions.cc.
struct VllmRules {
  bool group_aware_tokens = true;        // tokens = int(blocks / blocks of one request * max_model_len)
  bool pads_attention_pages = true;      // an attention page that does not divide the largest one is padded
  bool pads_state_pages = true;          // a state page smaller than the largest page is padded
  bool aligns_mixed_dtypes = true;       // --kv-cache-dtype-skip-layers enlarges the block on GPUs
  bool windows_choose_blocks = true;     // sliding-window layers take their own kernel-sized block
  bool hybrid_prefix_caching = true;     // prefix caching is on by default for hybrids with states
  bool in_flight_batches = true;         // windows reserve one batch for every batch in flight, not one
  bool latent_hybrids_align_128 = true;  // MLA hybrids align to 128 tokens at least
  bool one_pool_line = true;             // tokens and concurrency in one line
  bool reserves_null_block = true;       // the admission check holds one block back
  bool names_cpu_pool = true;            // "CPU KV cache size" on CPU; before: "GPU" everywhere
  bool names_pool_in_auto_fit = true;    // the wording of the auto-fit line
  bool checks_aligned_block = true;      // an aligned block that the backend rejects is refused
  bool cpu_mla_block_16 = true;          // CPU MLA overrides --block-size
  bool cpu_states_float32 = true;        // with AVX512-BF16 the CPU build keeps states in float32
  bool cpu_aligns_hybrids = true;        // the CPU build serves hybrids with states
  bool cpu_fp8 = true;                   // the CPU build stores FP8
  bool names_cpu_memory = true;          // the refusal mentions the CPU backend
  bool mamba2_checkpoint = true;         // a Mamba 2 request holds one block for a prefill's checkpoint
  bool mamba_mode_all = false;           // --mamba-cache-mode all exists
  bool mamba_all_by_default = false;     // and is the default of models that support it
  bool packed_dtypes = true;             // nvfp4, turboquant_* and *_per_token_head exist
  int cpu_kernel_block = 32;             // smallest kernel block of CPU attention
  std::vector<std::string> warnings;     // a version outside the known range
};

VllmRules VllmRulesOf(const EngineVersion& version);

}  // namespace haypile
