#include "planner/vllm_versions.h"

#include <fmt/format.h>

namespace haypile {
namespace {

constexpr EngineVersion kOldestKnown = {0, 19, 0};

}  // namespace

// The merge date of a pull request alone does not tell its release, so every pivot was looked up in the sources of the
// releases 0.19.1 to 0.32.0:
//   0.20.0  nvfp4, turboquant_* and *_per_token_head are KV cache dtypes
//   0.20.1  #41069 (2026-04-28): tokens and concurrency from the groups' blocks
//   0.21.0  CPU: hybrids with states are aligned; FP8 KV cache (#39445)
//   0.22.0  the refusal mentions the CPU backend
//   0.24.0  attention pages that do not divide the largest page are padded
//   0.25.0  skip layers enlarge the block; windows choose their block
//   0.26.0  #47728 (2026-07-08): batches in flight; hybrids cache prefixes by default; states padded to other layers'
//           pages; CPU states in float32
//   0.27.0  MLA hybrids align to 128
//   0.28.0  #50462 (2026-08-04): one line; CPU MLA forces blocks of 16; mamba mode align is every model's default
//   0.29.0  #47272 (2026-08-20): the null block is held back; CPU attention's kernel blocks are multiples of 32, not 16
//   0.30.0  the line names the device
//   0.32.0  the auto-fit line's wording; --mamba-cache-mode all is gone; aligned blocks are checked; Mamba 2 exports
//           checkpoints from inside a prefill and holds a block for it
VllmRules VllmRulesOf(const EngineVersion& version) {
  const auto since = [&version](int minor, int patch = 0) { return version >= EngineVersion{0, minor, patch}; };
  VllmRules rules;
  rules.packed_dtypes = since(20);
  rules.group_aware_tokens = since(20, 1);
  rules.cpu_aligns_hybrids = since(21);
  rules.cpu_fp8 = since(21);
  rules.names_cpu_memory = since(22);
  rules.pads_attention_pages = since(24);
  rules.aligns_mixed_dtypes = since(25);
  rules.windows_choose_blocks = since(25);
  rules.in_flight_batches = since(26);
  rules.hybrid_prefix_caching = since(26);
  rules.pads_state_pages = since(26);
  rules.cpu_states_float32 = since(26);
  rules.latent_hybrids_align_128 = since(27);
  rules.one_pool_line = since(28);
  rules.cpu_mla_block_16 = since(28);
  rules.reserves_null_block = since(29);
  rules.cpu_kernel_block = since(29) ? 32 : 16;
  rules.names_cpu_pool = since(30);
  rules.names_pool_in_auto_fit = since(32);
  rules.checks_aligned_block = since(32);
  rules.mamba2_checkpoint = since(32);
  rules.mamba_mode_all = !since(32);
  rules.mamba_all_by_default = !since(28);
  const EngineVersion newest = NewestKnownVersion(EngineKind::kVllm);
  if (version < kOldestKnown) {
    rules.warnings.push_back(fmt::format(
        "vLLM {} is older than the oldest version whose rules are known ({}); the plan follows {}, which agrees with "
        "older logs of models with full attention alone.",
        version.Text(), kOldestKnown.Text(), kOldestKnown.Text()));
  } else if (version > newest) {
    rules.warnings.push_back(
        fmt::format("vLLM {} is newer than the newest version whose rules are known; the plan "
                    "follows {}.",
                    version.Text(), newest.Text()));
  }
  return rules;
}

}  // namespace haypile
