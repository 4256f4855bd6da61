#include "plan_flags.h"

#include <CLI/CLI.hpp>

#include "command.h"
#include "planner/memory_budget.h"

namespace haypile {
namespace {

void AddDeviceFlags(CLI::App& command, PlanFlags& flags) {
  command.add_option("--engine", flags.engine, "vllm, sglang, trtllm, llamacpp or haypile")->capture_default_str();
  command.add_option("--engine-version", flags.engine_version, "e.g. 0.32.0; default: the newest known");
  command.add_option("--device", flags.device, "gpu or cpu: which build of the engine");
  command.add_option("--gpu", flags.gpu,
                     "A device of the catalogue, e.g. H200, B200, L40S, RTX-5090, DGX-Spark, MI300X");
  command.add_option("--gpu-count", flags.gpu_count, "Devices; without --tp all of them are tensor parallel")
      ->check(CLI::Range(1, kMostRanks));
  command.add_option("--gpu-file", flags.gpu_file, "JSON file of more devices (docs/plan.md)");
  command.add_option("--gpu-memory", flags.gpu_memory,
                     "Memory of one device, in place of the catalogue's: 141g, 139.8GiB");
  const auto ranks = [&](const char* names, std::optional<int>& target, const char* help) {
    command.add_option(names, target, help)->check(CLI::Range(1, kMostRanks));
  };
  ranks("--tensor-parallel-size,--tp,--tp-size", flags.tensor_parallel, "Tensor parallel ranks");
  ranks("--pipeline-parallel-size,--pp,--pp-size", flags.pipeline_parallel, "Pipeline stages");
  ranks("--decode-context-parallel-size,--dcp,--dcp-size", flags.decode_context_parallel,
        "Decode context parallel ranks");
  ranks("--data-parallel-size,--dp,--dp-size", flags.data_parallel, "Replicas inside one engine");
}

void AddMemoryFlags(CLI::App& command, PlanFlags& flags) {
  command.add_option("--kv-cache-memory-bytes,--kv-cache-memory", flags.pool_bytes,
                     "Bytes of the pool of one rank: 8500000000, 8.5g, 8GiB; several, comma between: one a rank");
  command.add_option("--gpu-memory-utilization", flags.vllm_utilization,
                     "vLLM: share of the device that the engine may use");
  command.add_option("--mem-fraction-static", flags.mem_fraction_static, "SGLang: share for weights and pool");
  command.add_option("--free-gpu-memory-fraction,--kv-cache-free-gpu-memory-fraction", flags.free_memory_fraction,
                     "TensorRT-LLM: share of what is free after loading");
  command.add_option("--weights-dtype", flags.weights_dtype, "Format of the weights: " + WeightDtypeNames());
  command.add_option("--weights-bytes", flags.weights_bytes,
                     "Bytes of all weights, where neither files nor parameters tell");
  command.add_option("--overhead", flags.overhead, "Bytes of everything but weights and pool, in place of estimates");
  command.add_flag("--enforce-eager,--disable-cuda-graph", flags.enforce_eager, "No CUDA graphs");
}

void AddPoolFlags(CLI::App& command, PlanFlags& flags) {
  command.add_option("--max-model-len,--max-seq-len,--context-length", flags.max_model_len,
                     "Longest request in tokens: 32768, 32k; -1 or auto: what fits");
  command.add_option("--kv-cache-dtype", flags.kv_cache_dtype,
                     "Comma between: one plan each; default: a set for the engine");
  command.add_option("--block-size,--page-size,--tokens-per-block", flags.block_size, "Tokens of a block");
  command.add_option("--max-num-batched-tokens,--chunked-prefill-size,--max-num-tokens", flags.batched_tokens,
                     "Tokens of one forward pass");
  command.add_option("--max-num-seqs,--max-batch-size", flags.max_num_seqs, "Most requests that run at once");
  CLI::Option* on = command.add_flag("--enable-prefix-caching", flags.prefix_caching, "Prefix caching on");
  command.add_flag("--no-enable-prefix-caching,--disable-radix-cache", flags.no_prefix_caching, "Prefix caching off")
      ->excludes(on);
  command.add_flag("--disable-hybrid-kv-cache-manager,!--no-disable-hybrid-kv-cache-manager", flags.no_hybrid_manager,
                   "Window layers keep every token");
  CLI::Option* async = command.add_flag("--async-scheduling", flags.async_scheduling, "vLLM: two batches in flight");
  command.add_flag("--no-async-scheduling", flags.no_async_scheduling, "vLLM: one batch in flight")->excludes(async);
  command.add_option("--mamba-cache-mode", flags.mamba_cache_mode, "vLLM: none, align or all");
  command.add_option("--mamba-cache-dtype", flags.mamba_cache_dtype, "vLLM: auto, float16, bfloat16 or float32");
  command.add_option("--mamba-ssm-cache-dtype", flags.mamba_ssm_cache_dtype,
                     "vLLM: auto, float16, bfloat16 or float32");
  command.add_option("--dtype", flags.model_dtype,
                     "Dtype that the engine runs the model in: auto, float16, bfloat16, float32");
  command.add_option("--num-gpu-blocks-override", flags.blocks_override, "vLLM: blocks, whatever the memory");
  command
      .add_option("--kv-cache-dtype-skip-layers", flags.skip_layers,
                  "vLLM: layers that keep the model's dtype: 0 31, sliding_window")
      ->expected(1, -1);
  command.add_flag("--trust-remote-code,--enable-expert-parallel,--enable-chunked-prefill", flags.ignored,
                   "Taken and not used: they change no pool");
}

void AddSpeculativeFlags(CLI::App& command, PlanFlags& flags) {
  command.add_option("--speculative", flags.speculative,
                     "METHOD:DRAFT:N, e.g. eagle3:drafts/eagle:3, mtp::1, ngram::4");
  command.add_option("--speculative-config", flags.speculative_config,
                     "vLLM's own JSON, e.g. {\"method\":\"mtp\",\"num_speculative_tokens\":1}");
  command.add_option("--speculative-algorithm", flags.speculative_algorithm,
                     "SGLang: EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM, DFLASH");
  command.add_option("--speculative-draft-model-path", flags.speculative_draft_model, "SGLang: the drafter");
  command.add_option("--speculative-num-draft-tokens", flags.speculative_draft_tokens, "SGLang: proposed tokens");
  command.add_option("--speculative-draft-kv-cache-dtype", flags.draft_kv_dtype,
                     "KV dtype of the drafter; default: the target's");
  command.add_option("--acceptance-length", flags.acceptance_length,
                     "Tokens a pass yields with the drafter, as measured");
}

void AddEngineFlags(CLI::App& command, PlanFlags& flags) {
  command.add_option("--swa-full-tokens-ratio", flags.swa_ratio, "SGLang: window pool over full pool")
      ->check(CLI::Range(1e-6, 1.0));
  command.add_option("--mamba-full-memory-ratio", flags.mamba_ratio, "SGLang: state pool over token pool")
      ->check(CLI::Range(1e-6, 1e6));
  command.add_option("--max-mamba-cache-size", flags.mamba_cache_size, "SGLang: states kept");
  command.add_option("--max-running-requests", flags.max_running_requests, "SGLang: most requests that run at once");
  command.add_option("--max-total-tokens,--max-tokens", flags.max_total_tokens,
                     "SGLang, TensorRT-LLM: most tokens in the pool");
  command.add_option("-c,--ctx-size", flags.context_size, "llama.cpp: context of all slots");
  command.add_option("--parallel", flags.slots, "llama.cpp (-np): slots")->check(CLI::Range(-1, kMostRanks));
  command.add_option("-b,--batch-size", flags.batch, "llama.cpp: logical batch");
  command.add_option("--ubatch-size", flags.ubatch, "llama.cpp (-ub): micro-batch");
  command.add_option("--cache-type-k", flags.cache_type_k, "llama.cpp (-ctk): type of K");
  command.add_option("--cache-type-v", flags.cache_type_v, "llama.cpp (-ctv): type of V");
  command.add_option("--flash-attn", flags.flash_attention, "llama.cpp (-fa): on, off or auto")
      ->expected(0, 1)
      ->default_str("on");
  command.add_flag("--kv-unified", flags.kv_unified, "llama.cpp (-kvu): one buffer for all slots");
  command.add_flag("--swa-full", flags.swa_full, "llama.cpp: window layers keep every cell");
}

void AddLoadFlags(CLI::App& command, PlanFlags& flags) {
  CLI::Option* constant =
      command.add_option("--sequence-length", flags.sequence_length, "Tokens of a typical request, prompt and output");
  command
      .add_option("--length-distribution", flags.length_distribution,
                  "File of request lengths, one a line, or 'length count'")
      ->excludes(constant);
  command
      .add_option("--solve", flags.solve,
                  "gpus, context, requests or replicas, comma between; alone: all that can be answered")
      ->delimiter(',')
      ->expected(0, -1);
  command.add_option("--requests", flags.requests, "--solve gpus, context: requests that must be held at once")
      ->check(CLI::Range(1e-3, 1e9));
  command.add_option("--load", flags.load, "--solve replicas: requests in service at once")
      ->check(CLI::Range(1e-3, 1e12));
}

}  // namespace

void AddPlanFlags(CLI::App& command, PlanFlags& flags) {
  command.add_option("MODEL", flags.model,
                     "A Hugging Face folder, a config.json, a GGUF file, a known name or Hugging Face id, or - for "
                     "config.json on standard input");
  AddDeviceFlags(command, flags);
  AddMemoryFlags(command, flags);
  AddPoolFlags(command, flags);
  AddSpeculativeFlags(command, flags);
  AddEngineFlags(command, flags);
  AddLoadFlags(command, flags);
  command.add_flag("--explain", flags.explain, "The whole derivation, with numbers");
  command.add_flag("--json", flags.json, "Print JSON (haypile.plan/1)");
}

}  // namespace haypile
