#include "planner/trtllm_dtypes.h"

#include <fmt/format.h>

#include <cctype>

namespace haypile {
namespace {

// From here on an explicit dtype overrides what the checkpoint asks for; before, a mismatch ends the start.
constexpr EngineVersion kOverrides{1, 3, 0};

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

TrtllmDtype PlainTrtllm(const ModelGeometry& model) {
  if (model.model_dtype_bytes == 4) return {"float32", TrtllmStorage::kPlain, 4, {}, {}, {}};
  return {"bfloat16", TrtllmStorage::kPlain, 2, {}, {}, {}};
}

TrtllmDtype Quantized(const std::string& name) {
  if (name == "nvfp4") return {"nvfp4", TrtllmStorage::kNvfp4, 0, {}, {}, {}};
  return {"fp8", TrtllmStorage::kFp8, 1, {}, {}, {}};
}

// NVFP4 pools have kernels on SM100 and SM103 alone; SM107 takes FP8 in their place.
void CheckDevice(int sm, TrtllmDtype& dtype) {
  const bool nvfp4 = dtype.storage == TrtllmStorage::kNvfp4;
  if (nvfp4 && sm <= 0) {
    dtype.warnings.push_back("An NVFP4 cache runs on SM100 and SM103 alone; name the GPU to have it checked.");
  } else if (nvfp4 && sm == 107) {
    dtype.name = "fp8";
    dtype.storage = TrtllmStorage::kFp8;
    dtype.element_bytes = 1;
    dtype.warnings.push_back("SM107 has no NVFP4 cache: the engine takes FP8 in its place, with a warning.");
  } else if (nvfp4 && sm != 100 && sm != 103) {
    dtype.refusal =
        fmt::format("an NVFP4 KV cache needs SM100 or SM103; this GPU is SM{} and has no kernels for it", sm);
  } else if (dtype.storage == TrtllmStorage::kFp8 && sm > 0 && sm < 80) {
    dtype.refusal = fmt::format("an FP8 KV cache needs SM80 or later; this GPU is SM{}", sm);
  }
}

std::string CheckpointDtype(const ModelGeometry& model) {
  if (model.checkpoint_kv_dtype.starts_with("fp8")) return "fp8";
  return model.checkpoint_kv_dtype.starts_with("nvfp4") ? "nvfp4" : "";
}

TrtllmDtype Explicit(const ModelGeometry& model, const PlanRequest& request, const std::string& asked) {
  TrtllmDtype dtype = Quantized(asked);
  const std::string own = CheckpointDtype(model);
  if (!own.empty() && own != asked && request.version < kOverrides) {
    dtype.refusal = fmt::format(
        "Attempting to override KV cache quantization \"{}\" with "
        "llm_args.KvCacheConfig.dtype=\"{}\". You cannot override a checkpoint with a "
        "pre-quantized KV cache that doesn't match.",
        Upper(own), asked);
  } else if (!own.empty() && own != asked) {
    dtype.warnings.push_back("The checkpoint asks for a KV cache of " + own + "; the flag overrides it.");
  }
  if (asked == "nvfp4" && own != "nvfp4") {
    dtype.warnings.push_back(
        "An NVFP4 cache is documented for checkpoints that ModelOpt quantized for it offline; the flag alone is not.");
  }
  return dtype;
}

}  // namespace

TrtllmDtype ResolveTrtllmDtype(const ModelGeometry& model, const PlanRequest& request) {
  const std::string asked = request.kv_cache_dtype.empty() ? "auto" : request.kv_cache_dtype;
  TrtllmDtype dtype;
  if (asked == "auto") {
    const std::string own = CheckpointDtype(model);
    dtype = own.empty() ? PlainTrtllm(model) : Quantized(own);
    dtype.log_lines.push_back("KV cache quantization set to \"auto\". Using checkpoint KV quantization.");
  } else if (asked == "fp8" || asked == "nvfp4") {
    dtype = Explicit(model, request, asked);
  } else {
    dtype.name = asked;
    dtype.refusal = fmt::format(
        "Overriding KV cache quantization with an invalid type "
        "\"llm_args.KvCacheConfig.dtype=\"{}\" Accepted types are \"('fp8', 'nvfp4', 'auto')\".",
        asked);
    return dtype;
  }
  dtype.log_lines.insert(dtype.log_lines.begin(),
                         "Validating KV Cache config against kv_cache_dtype=\"" + asked + "\"");
  if (dtype.refusal.empty()) CheckDevice(request.gpu_sm, dtype);
  return dtype;
}

}  // namespace haypile
