#include <algorithm>
#include <array>

#include "base/text.h"
#include "engines/doctor.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

// A known ending: words of the message (all in lower case, all must be there), and what to do.
struct KnownError {
  std::string_view id, words, also, why, type, check;
};

constexpr KnownError kKnown[] = {
    {"error.quantized_v_needs_flash_attention", "v cache", "flash",
     "llama.cpp's own flash attention, switched by -fa, is meant; the Python package "
     "flash-attn has nothing to do with it. It needs equal K and V head sizes; a default CUDA build takes equal K and "
     "V "
     "types only.",
     "-fa on, with -ctk and -ctv alike; -ctv f16 where the model cannot use flash attention",
     "the line 'flash_attn = enabled'"},
    {"error.flash_attention_off", "flash_attn", "forcing off",
     "Flash attention needs equal K and V head sizes; without it a quantized V cannot be "
     "served.",
     "-ctv f16   # quantize K alone", "the server starts, and its cache line names V (f16)"},
    {"error.fp8_below_sm89", "fp8e4nv", "",
     "The device has no E4M3 conversion: 'fp8' means E4M3, which starts at compute capability "
     "8.9.",
     "--kv-cache-dtype auto; or int8_per_token_head; or fp8_e5m2 on FLASHINFER", "the start passes its first request"},
    {"error.fp8_below_sm89", "fp8 kv cache is not supported by the triton", "",
     "The Triton backend converts E4M3 from compute capability 8.9 on.",
     "--kv-cache-dtype auto; or int8_per_token_head", "the start passes its first request"},
    {"error.fp8_below_sm89", "f8e4m3 not supported", "", "The device has no E4M3 conversion.", "--kv-cache-dtype auto",
     "the start passes its "
     "first request"},
    {"error.no_backend", "no valid attention backend", "",
     "No backend serves this dtype with this head size on this device; the reasons stand in the "
     "line.",
     "--kv-cache-dtype auto, or the dtype and backend that 'haypile plan MODEL --gpu NAME' lists as served",
     "a "
     "backend line at the next start"},
    {"error.backend_invalid", "is not valid for this configuration", "", "A backend that is named has no fallback.",
     "leave --attention-backend "
     "out, or name one whose reason list is empty",
     "a backend line at the next start"},
    {"error.output_scale_name", "has no attribute 'data'", "",
     "The checkpoint spells its KV scales k_proj.output_scale; this loader takes them for "
     "parameters of the projection.",
     "rename the tensors to ...self_attn.k_scale and v_scale", "the start loads the weights"},
    {"error.state_blocks", "exceeds available mamba cache blocks", "",
     "Full graphs need a state block for each sequence.",
     "--max-num-seqs at most the number "
     "in the line",
     "graphs are captured at the next start"},
    {"error.page_sizes", "page size", "divisible",
     "Layers with different page sizes cannot share one pool here: often one skipped or drafter layer at the "
     "model's dtype beside a quantized cache.",
     "the same KV dtype for all layers and the drafter, or --kv-cache-dtype auto", "a pool line at the next start"},
    {"error.pool_too_small", "to serve at least one request", "",
     "One request of max_model_len does not fit into the pool.",
     "--max-model-len of at most "
     "the estimate in the line; or a smaller KV dtype",
     "a pool line at the next start"},
    {"error.no_pool", "no available memory for the cache blocks", "",
     "Nothing is left after weights and activations on at least one rank.",
     "look at what "
     "else uses the device (nvidia-smi) before raising --gpu-memory-utilization",
     "every 'Available KV cache memory' is "
     "positive"},
    {"error.weights_leave_nothing", "leave no gpu memory for the kv cache", "",
     "The weights fill what the fraction allows.",
     "--mem-fraction-static at the value "
     "in the line, or more ranks",
     "a pool line at the next start"},
    {"error.not_enough_memory", "not enough memory", "mem-fraction-static", "The pool would have no token.",
     "a larger --mem-fraction-static, or more ranks", "max_total_num_tokens is positive"},
    {"error.per_tensor_only", "only support per-tensor scaling", "", "The checkpoint's KV scales are per head.",
     "FLASH_ATTN with FA3 or FA4 in vLLM, or scales "
     "per tensor: haypile calibrate MODEL --strategy tensor",
     "the weights load"},
    {"error.phase_backend", "kv cache method", "does not support",
     "FP4 caches are served by other backends for prefill and decode.",
     "the backend that the line "
     "lists as available, as --prefill-attention-backend or --decode-attention-backend",
     "the server is ready"},
    {"error.override", "attempting to override kv cache quantization", "",
     "This version does not change the checkpoint's own KV dtype.",
     "kv_cache_config: {dtype: "
     "auto}",
     "the start passes"},
    {"error.e5m2_checkpoint", "fp8_e5m2 kv-cache is not supported with fp8 checkpoints", "",
     "E5M2 caches are refused with FP8 weights.",
     "--kv-cache-dtype "
     "fp8_e4m3",
     "a pool line at the next start"},
    {"error.nvfp4_mla", "nvfp4 kv cache is not supported with mla", "", "MLA backends have no NVFP4 cache.",
     "--kv-cache-dtype fp8",
     "a pool line at the next "
     "start"},
    {"error.nvfp4_device", "nvfp4", "sm100", "Only SM100 devices serve an NVFP4 cache here.", "--kv-cache-dtype fp8",
     "a pool line at the next start"},
    {"error.dtype_renamed", "fp4_e2m1 is deprecated", "", "The name was changed.", "--kv-cache-dtype fp4_mx_block16",
     "the server is ready"},
    {"error.kv_heads_and_ranks", "is invalid for input of size", "",
     "With more ranks than KV heads an engine must replicate heads; this path does not.",
     "a tensor parallel size that divides the number of KV heads", "the first request is answered"},
    {"error.power_of_two_head", "power of two", "",
     "The Hadamard rotation of int4_per_token_head is defined for head sizes that are powers of two.",
     "--kv-cache-dtype int8_per_token_head, or fp8", "a pool line at the next start"},
    {"error.head_size_block", "not a multiple of", "", "A quantized row is made of blocks of 32 values along the head.",
     "-ctk f16 -ctv f16",
     "the server "
     "is ready"},
    {"error.kernel_build", "ninja", "",
     "A kernel is compiled at the first start, and that failed: the compiler, the CUDA headers or this shape.",
     "--attention-backend TRITON_ATTN (SGLang: --attention-backend triton)   # builds no CUDA source",
     "a backend line that names "
     "the other backend"},
    {"error.kernel_build", "nvcc", "", "A kernel is compiled at the first start, and that failed.",
     "--attention-backend TRITON_ATTN (SGLang: "
     "--attention-backend triton)",
     "a backend line that names the other backend"},
    {"error.kernel_build", "jit", "compil", "A kernel is compiled at the first start, and that failed.",
     "--attention-backend TRITON_ATTN (SGLang: "
     "--attention-backend triton)",
     "a backend line that names the other backend"},
    {"error.illegal_access", "illegal memory access", "",
     "A kernel read outside its buffers; with a quantized cache often one backend alone does.",
     "name another backend, then --kv-cache-dtype auto, one at a time", "the same request is answered"},
};

const KnownError* Known(const ErrorLine& error) {
  const std::string words = LowerCase(error.type + ": " + error.message);
  for (const KnownError& known : kKnown) {
    if (Contains(words, known.words) && (known.also.empty() || Contains(words, known.also))) return &known;
  }
  return nullptr;
}

// The first error that says something; each process repeats it, and wrappers follow.
const ErrorLine* RootOf(const LogRecord& log) {
  const ErrorLine* root = nullptr;
  for (const ErrorLine& error : log.errors) {
    if (error.summary) continue;
    if (Known(error) != nullptr) return &error;
    if (root == nullptr) root = &error;
  }
  return root;
}

// After a pool line a dead engine is the end of service, mostly a shutdown, not a start that failed.
bool StartFailed(const LogRecord& log, const ErrorLine& error) {
  return std::none_of(log.pools.begin(), log.pools.end(),
                      [&](const PoolLine& pool) { return pool.line.number < error.line.number; });
}

}  // namespace

void FindErrors(const DoctorInput& input, Findings& findings) {
  const LogRecord& log = *input.log;
  if (log.errors.empty()) return;
  const ErrorLine* root = RootOf(log);
  std::vector<LogLine> summaries;
  for (const ErrorLine& error : log.errors) {
    if (error.summary && summaries.empty()) summaries.push_back(error.line);
  }
  if (root == nullptr) {
    if (!StartFailed(log, log.errors.front())) return;
    findings.push_back({"error.hidden",
                        Severity::kProblem,
                        "The engine failed, and this log holds only the summary, not the reason.",
                        summaries,
                        "The reason stands above the summary, in the output of the worker or engine process.",
                        {"haypile doctor --log FILE   # with all processes' output, from the first line on"},
                        "this command quotes an error with its type"});
    return;
  }
  const std::string words = (root->type.empty() ? "" : root->type + ": ") + root->message;
  Finding finding{"error.other", Severity::kProblem, "", {root->line}, "", {}, ""};
  finding.what = (StartFailed(log, *root) ? "The start failed: " : "The server reported: ") + words.substr(0, 300);
  if (const KnownError* known = Known(*root)) {
    finding.id = known->id;
    finding.why = known->why;
    finding.type = {std::string(known->type)};
    finding.check = known->check;
  } else {
    finding.why = "It is the first error that says anything; the lines after it repeat or summarise it.";
    finding.type = {ModelDtypeFlag(log.engine) +
                    "   # the same start without a quantized cache: is the cache to blame at all?"};
    finding.check = "the start passes; then change one thing at a time";
  }
  if (!summaries.empty() && summaries.front().number > root->line.number) finding.evidence.push_back(summaries.front());
  if (Contains(words, "exceeds the maximum allowed length")) finding.id = "error.request_too_long";
  findings.push_back(std::move(finding));
}

}  // namespace haypile
