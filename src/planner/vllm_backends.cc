#include "planner/vllm_backends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace haypile {
namespace {

constexpr int kAssumedSm = 90;

// What selection asks of a model.
struct Needs {
  std::set<int> head_dims;
  int sm = 0;
  int gqa_ratio = 1;
  bool latent = false;
  bool sparse = false;
  bool sinks = false;
};

Needs NeedsOf(const ModelGeometry& model, const PlanRequest& request) {
  Needs needs;
  needs.sm = request.gpu_sm > 0 ? request.gpu_sm : kAssumedSm;
  needs.sinks = model.attention_sinks;
  for (const LayerGeometry& layer : model.layers) {
    if (layer.cache == CacheKind::kMla) {
      needs.latent = true;
      needs.sparse = needs.sparse || layer.index_head_dim > 0;
    } else if (layer.cache != CacheKind::kNone && layer.cache != CacheKind::kStateSpace) {
      needs.head_dims.insert(layer.head_dim_k);
      if (layer.kv_heads > 0) needs.gqa_ratio = std::max(needs.gqa_ratio, model.query_heads / layer.kv_heads);
    }
  }
  return needs;
}

bool IsFp8(const VllmKvDtype& dtype) { return dtype.name == "fp8" || dtype.name == "fp8_e4m3"; }
bool IsNative(const VllmKvDtype& dtype) { return !dtype.Quantized(); }
bool Family(int sm, int family) { return sm / 10 == family; }

using Reasons = std::vector<std::string>;

Reasons FlashAttentionReasons(const Needs& needs, const VllmKvDtype& dtype) {
  Reasons reasons;
  if (needs.sm < 80) reasons.push_back("compute capability not supported");
  int largest = 0;
  for (const int dim : needs.head_dims) {
    largest = std::max(largest, dim);
    if (dim % 8 != 0 || dim > (needs.sm >= 90 ? 512 : 256)) reasons.push_back("head_size not supported");
  }
  if (IsFp8(dtype)) {
    const bool fa3 = Family(needs.sm, 9) && largest <= 256;
    const bool fa4 = Family(needs.sm, 10) && largest <= 128;
    if (!fa3 && !fa4) reasons.push_back("FP8 KV cache requires FA3 on SM90 or FA4 on SM100");
  } else if (dtype.Quantized()) {
    reasons.push_back("kv_cache_dtype not supported");
  }
  if (needs.sinks && needs.sm < 90) reasons.push_back("sink not supported on compute capability < 9.0");
  return reasons;
}

Reasons FlashInferReasons(const Needs& needs, const VllmKvDtype& dtype) {
  Reasons reasons;
  if (needs.sm < 80 || needs.sm > 121) reasons.push_back("compute capability not supported");
  for (const int dim : needs.head_dims) {
    if (dim != 64 && dim != 128 && dim != 256 && dim != 512) reasons.push_back("head_size not supported");
  }
  const bool nvfp4 = dtype.mode == VllmKvMode::kNvfp4;
  const bool known = IsNative(dtype) || IsFp8(dtype) || dtype.name == "fp8_e5m2" || nvfp4;
  if (!known || (nvfp4 && !Family(needs.sm, 10))) reasons.push_back("kv_cache_dtype not supported");
  if (needs.sinks && !Family(needs.sm, 10) && !Family(needs.sm, 12)) {
    reasons.push_back("attention sinks not supported");
  }
  return reasons;
}

Reasons TritonReasons(const Needs& needs, const VllmKvDtype& dtype) {
  Reasons reasons;
  for (const int dim : needs.head_dims) {
    if (dim < 32) reasons.push_back("head_size not supported");
  }
  const bool known = IsNative(dtype) || IsFp8(dtype) || dtype.name == "fp8_e5m2" || dtype.PerTokenHead();
  if (!known) reasons.push_back("kv_cache_dtype not supported");
  return reasons;
}

Reasons FlexReasons(const Needs& needs, const VllmKvDtype& dtype) {
  Reasons reasons;
  if (dtype.Quantized()) reasons.push_back("kv_cache_dtype not supported");
  if (needs.sinks) reasons.push_back("attention sinks not supported");
  return reasons;
}

Reasons TurboquantReasons(const Needs& needs, const VllmKvDtype& dtype) {
  Reasons reasons;
  if (dtype.mode != VllmKvMode::kTurboquant) reasons.push_back("kv_cache_dtype not supported");
  if (needs.sinks) reasons.push_back("attention sinks not supported");
  return reasons;
}

VllmBackend Multiples(std::string name, int base, int default_block) {
  return {std::move(name), {base}, true, false, default_block};
}

VllmBackend FlashInfer(const Needs& needs) {
  VllmBackend backend{"FLASHINFER", {16, 32, 64}, false, false, 16};
  // Larger pages run on the trtllm-gen kernel for grouped queries alone.
  if (Family(needs.sm, 10) && needs.gqa_ratio > 1) backend.kernel_blocks = {16, 32, 64, 128, 256, 512, 1024};
  return backend;
}

std::string NoBackend(const Needs& needs, const VllmKvDtype& dtype,
                      const std::vector<std::pair<std::string, Reasons>>& rejected) {
  std::string reasons;
  for (const auto& [name, why] : rejected) {
    reasons += fmt::format("{}{}: [{}]", reasons.empty() ? "" : ", ", name, fmt::join(why, ", "));
  }
  return fmt::format(
      "No valid attention backend found for cuda with AttentionSelectorConfig(head_size={}, kv_cache_dtype={}, "
      "use_mla={}, has_sink={}) on compute capability {}.{}. Reasons: {{{}}}.",
      needs.head_dims.empty() ? 0 : *needs.head_dims.rbegin(), dtype.name, needs.latent ? "True" : "False",
      needs.sinks ? "True" : "False", needs.sm / 10, needs.sm % 10, reasons);
}

void ChooseDense(const Needs& needs, VllmBackendChoice& choice) {
  const VllmKvDtype& dtype = choice.dtype;
  std::vector<std::pair<VllmBackend, Reasons>> order = {
      {Multiples("FLASH_ATTN", 16, 16), FlashAttentionReasons(needs, dtype)},
      {FlashInfer(needs), FlashInferReasons(needs, dtype)},
      {Multiples("TRITON_ATTN", 16, 16), TritonReasons(needs, dtype)},
      {Multiples("FLEX_ATTENTION", 16, 16), FlexReasons(needs, dtype)},
      {VllmBackend{"TURBOQUANT", {16, 32, 64, 128}, false, false, 16}, TurboquantReasons(needs, dtype)},
  };
  if (Family(needs.sm, 10)) std::swap(order[0], order[1]);
  std::vector<std::pair<std::string, Reasons>> rejected;
  for (auto& [backend, reasons] : order) {
    if (!reasons.empty()) {
      rejected.push_back({backend.name, reasons});
      continue;
    }
    choice.backend = backend;
    // Raised when the layer is built, after selection: there is no fallback.
    if (backend.name == "TRITON_ATTN" && dtype.name.starts_with("fp8") && needs.sm < 89) {
      choice.refusal = fmt::format(
          "FP8 KV cache is not supported by the Triton attention backend on this device (compute capability {}.{}); "
          "native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16.",
          needs.sm / 10, needs.sm % 10);
    }
    return;
  }
  choice.backend = order[dtype.mode == VllmKvMode::kNvfp4 ? 1 : 0].first;
  choice.refusal = NoBackend(needs, dtype, rejected);
}

void UseFp8DsMla(VllmBackendChoice& choice) {
  choice.dtype.name = "fp8_ds_mla";
  choice.dtype.mode = VllmKvMode::kFp8DsMla;
  choice.log_lines.push_back(fmt::format("Using fp8_ds_mla KV cache format for {} backend.", choice.backend.name));
}

void ChooseSparseLatent(const Needs& needs, VllmBackendChoice& choice) {
  const bool fp8 = IsFp8(choice.dtype);
  const bool ds_mla = choice.dtype.mode == VllmKvMode::kFp8DsMla;
  if (IsNative(choice.dtype) || fp8 || ds_mla) {
    if (Family(needs.sm, 12)) {
      choice.backend = {"FLASHINFER_MLA_SPARSE_SM120", {64, 256}, false, false, 64};
      if (!ds_mla && choice.dtype.mode != VllmKvMode::kHalf) UseFp8DsMla(choice);
      return;
    }
    if (Family(needs.sm, 10) && !ds_mla) {
      choice.backend = {"FLASHINFER_MLA_SPARSE", {32, 64}, false, false, 64};
      return;
    }
    if (Family(needs.sm, 9) || Family(needs.sm, 10)) {
      choice.backend = {IsNative(choice.dtype) ? "FLASH_ATTN_MLA_SPARSE" : "FLASHMLA_SPARSE", {64}, false, false, 64};
      if (fp8) UseFp8DsMla(choice);
      return;
    }
  }
  choice.backend = {"FLASHMLA_SPARSE", {64}, false, false, 64};
  choice.refusal = NoBackend(needs, choice.dtype, {{"FLASHMLA_SPARSE", {"kv_cache_dtype not supported"}}});
}

void ChooseLatent(const Needs& needs, VllmBackendChoice& choice) {
  const VllmKvDtype& dtype = choice.dtype;
  choice.backend = Multiples("TRITON_MLA", 16, 16);
  if (dtype.mode == VllmKvMode::kNvfp4) {
    choice.refusal =
        "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends. Please use a different "
        "--kv-cache-dtype (e.g., 'fp8' or 'auto') for MLA models such as DeepSeek.";
    return;
  }
  if (needs.sparse) return ChooseSparseLatent(needs, choice);
  const bool served = IsNative(dtype) || IsFp8(dtype);
  if (served && Family(needs.sm, 10)) {
    choice.backend = {"FLASHINFER_MLA", {32, 64}, false, false, 32};
  } else if (served && Family(needs.sm, 9)) {
    // FlashAttention's MLA kernels take no FP8.
    choice.backend =
        IsNative(dtype) ? Multiples("FLASH_ATTN_MLA", 16, 16) : VllmBackend{"FLASHMLA", {64}, false, false, 64};
  } else if (!served && !dtype.PerTokenHead()) {
    choice.refusal = NoBackend(needs, dtype, {{"TRITON_MLA", {"kv_cache_dtype not supported"}}});
  }
}

// No CPU backend packs K and V, and the CPU platform does not check the dtype: one byte a value, no scales.
void SizePackedAsBytes(VllmBackendChoice& choice) {
  const VllmKvMode mode = choice.dtype.mode;
  if (!choice.dtype.Quantized() || mode == VllmKvMode::kFp8 || mode == VllmKvMode::kFp8DsMla) return;
  choice.dtype.mode = VllmKvMode::kFp8;
  choice.warnings.push_back(fmt::format(
      "vLLM's CPU attention does not store {}: the pool is sized at one byte a value, and the cache does not work.",
      choice.dtype.name));
}

void ChooseOnCpu(const Needs& needs, const VllmRules& rules, VllmBackendChoice& choice) {
  const VllmKvDtype& dtype = choice.dtype;
  if (needs.sparse) {
    choice.backend = {"CPU_MLA", {16}, false, true, 16};
    choice.refusal = "Sparse Attention is not supported on CPU.";
    return;
  }
  if (needs.latent) {
    choice.backend = {"CPU_MLA", {16}, false, true, 16};
    if (dtype.mode == VllmKvMode::kNvfp4) {
      choice.refusal =
          "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends. Please use a different "
          "--kv-cache-dtype (e.g., 'fp8' or 'auto') for MLA models such as DeepSeek.";
    }
    return SizePackedAsBytes(choice);
  }
  choice.backend = Multiples("CPU_ATTN", rules.cpu_kernel_block, 128);
  if (!dtype.Quantized() || dtype.mode != VllmKvMode::kFp8) return SizePackedAsBytes(choice);
  for (const int dim : needs.head_dims) {
    if (dim % 32 != 0) choice.refusal = "FP8 KV cache requires head_size divisible by 32 on CPU.";
  }
  if (!rules.cpu_fp8) choice.refusal = "FP8 KV cache is not supported by vLLM's CPU build before 0.21.";
}

}  // namespace

int64_t VllmBackend::LargestKernelBlockWithin(int64_t token_bytes, int64_t budget) const {
  const int64_t most = budget / token_bytes;
  if (multiples) {
    const int64_t base = SmallestKernelBlock();
    return std::max(base, most / base * base);
  }
  int64_t best = SmallestKernelBlock();
  for (const int block : kernel_blocks) {
    if (block <= most) best = std::max<int64_t>(best, block);
  }
  return best;
}

VllmBackendChoice ChooseVllmBackend(const ModelGeometry& model, const PlanRequest& request, const VllmKvDtype& dtype,
                                    const VllmRules& rules) {
  VllmBackendChoice choice;
  choice.dtype = dtype;
  const Needs needs = NeedsOf(model, request);
  if (request.device == DeviceKind::kCpu) {
    ChooseOnCpu(needs, rules, choice);
    return choice;
  }
  if (needs.latent) {
    ChooseLatent(needs, choice);
  } else {
    ChooseDense(needs, choice);
  }
  const bool scaled_checkpoint = model.quantization_method == "fp8" || !model.checkpoint_kv_dtype.empty();
  if (choice.refusal.empty() && dtype.name == "fp8_e5m2" && scaled_checkpoint) {
    choice.refusal = "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.";
  } else if (!choice.refusal.empty() && request.gpu_sm == 0 && !needs.latent) {
    // Nothing says which GPU it is: another one may serve this dtype.
    choice.warnings.push_back(
        fmt::format("The GPU is not known. vLLM serves --kv-cache-dtype {} on {} only; elsewhere it stops.", dtype.name,
                    dtype.mode == VllmKvMode::kNvfp4 ? "SM10x GPUs (B200, GB200, B300)" : "some GPUs"));
    choice.refusal.clear();
  }
  return choice;
}

}  // namespace haypile
