#include "planner/sglang_dtypes.h"

#include <fmt/format.h>

namespace haypile {
namespace {

constexpr const char* kChoices = "auto, fp8_e5m2, fp8_e4m3, bf16, bfloat16, mxfp8, nvfp4, fp4_mx_block16";

SglangDtype RefusedDtype(const std::string& asked, std::string reason) {
  SglangDtype dtype;
  dtype.name = asked;
  dtype.refusal = std::move(reason);
  return dtype;
}

SglangDtype Plain(const ModelGeometry& model) {
  if (model.model_dtype_bytes == 4) return {"float32", "torch.float32", SglangStorage::kPlain, 4, {}, {}, {}};
  return {"bfloat16", "torch.bfloat16", SglangStorage::kPlain, 2, {}, {}, {}};
}

SglangDtype Fp8(const std::string& name, const PlanRequest& request) {
  SglangDtype dtype{
      name, "torch.float8_" + std::string(name == "fp8_e5m2" ? "e5m2" : "e4m3fn"), SglangStorage::kFp8, 1, {}, {}, {}};
  if (name == "fp8_e4m3") {
    // Printed whenever --quantization-param-path is absent, whatever the checkpoint brings (sgl-project/sglang #31224).
    const bool longer = request.version <= EngineVersion{0, 5, 15};
    dtype.log_lines.push_back(
        "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0." +
        std::string(longer ? " This may lead to less accurate results!" : ""));
  }
  return dtype;
}

SglangDtype Fp4(const std::string& name, const std::string& label, const PlanRequest& request) {
  SglangDtype dtype{name, "torch.float4_e2m1fn_x2", SglangStorage::kFp4, 1, {}, {}, {}};
  if (request.device == DeviceKind::kGpu && name == "nvfp4" && request.gpu_sm > 0 && request.gpu_sm < 100) {
    dtype.refusal = fmt::format(
        "KV cache method 'nvfp4' decodes in the trtllm_mha backend alone, which needs SM100 or "
        "SM120; this GPU is SM{}",
        request.gpu_sm);
  }
  if (!label.empty()) dtype.log_lines.push_back(label + " KV Cache might lead to an accuracy drop!");
  return dtype;
}

bool ModelOptAsksForFp8(const ModelGeometry& model) {
  return model.checkpoint_kv_dtype.starts_with("fp8") &&
         model.quantization_method.find("modelopt") != std::string::npos;
}

SglangDtype Automatic(const ModelGeometry& model, const PlanRequest& request) {
  if (ModelOptAsksForFp8(model)) return Fp8("fp8_e4m3", request);
  SglangDtype dtype = Plain(model);
  if (!model.checkpoint_kv_dtype.empty()) {
    dtype.warnings.push_back("The checkpoint asks for a KV cache of " + model.checkpoint_kv_dtype +
                             ", which --kv-cache-dtype auto does not follow; name the dtype.");
  }
  return dtype;
}

}  // namespace

SglangDtype ResolveSglangDtype(const ModelGeometry& model, const std::string& asked, const PlanRequest& request) {
  if (asked == "auto" || asked.empty()) return Automatic(model, request);
  if (asked == "bf16" || asked == "bfloat16") {
    return {"bfloat16", "torch.bfloat16", SglangStorage::kPlain, 2, {}, {}, {}};
  }
  if (asked == "fp8_e4m3" || asked == "fp8_e5m2") return Fp8(asked, request);
  if (asked == "mxfp8") return {"mxfp8", "torch.float8_e4m3fn", SglangStorage::kMxfp8, 1, {}, {}, {}};
  if (asked == "nvfp4") return Fp4(asked, "NVFP4", request);
  if (asked == "fp4_mx_block16") return Fp4(asked, "FP4_MX_BLOCK16", request);
  if (asked == "fp4_e2m1" && request.version < kSglangNewNames) return Fp4(asked, "", request);
  if (asked == "fp4_e2m1") {
    return RefusedDtype(asked, "--kv-cache-dtype=fp4_e2m1 is deprecated. Use --kv-cache-dtype=fp4_mx_block16.");
  }
  if (asked == "mxfp4")
    return RefusedDtype(asked, "--kv-cache-dtype=mxfp4 is kept for blocks of 32; use fp4_mx_block16");
  return RefusedDtype(asked,
                      fmt::format("argument --kv-cache-dtype: invalid choice: '{}' (choose from {})", asked, kChoices));
}

}  // namespace haypile
