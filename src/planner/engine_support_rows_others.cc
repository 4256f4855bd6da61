// SGLang, TensorRT-LLM, llama.cpp and Haypile itself: what their documentation and sources say of KV dtypes.
#include <vector>

#include "planner/engine_support_rows.h"

namespace haypile {
namespace {

constexpr EngineKind kS = EngineKind::kSglang, kT = EngineKind::kTrtllm, kL = EngineKind::kLlamacpp,
                     kH = EngineKind::kHaypile;
constexpr std::string_view kDocs = "SGLang, docs attention_backend and quantized_kv_cache (2026)";
constexpr std::string_view kFp4 = "SGLang, fp4_kv_cache_quant_method.py and docs quantized_kv_cache (2026)";
constexpr std::string_view kFa3 = "SGLang, issue 18550 (2026-02) and docs attention_backend";
constexpr std::string_view kTrt = "TensorRT-LLM, numerical precision matrix (1.x) and issues 10241, 7988";
constexpr std::string_view kLlama = "llama.cpp, common/arg.cpp kv_cache_types (2026-08)";
constexpr std::string_view kLlamaFa = "llama.cpp, llama-context.cpp: a quantized V needs flash attention (2026-08)";

constexpr std::string_view kHalf = "auto bf16 bfloat16", kE4m3 = "fp8_e4m3", kE5m2 = "fp8_e5m2",
                           kFp8 = "fp8_e4m3 fp8_e5m2", kMx = "fp4_mx_block16 fp4_e2m1";
constexpr std::string_view kGgml = "q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl";
constexpr std::string_view kWidened = "16 bits";

// engine, backend, dtypes, devices, layouts, heads, windows, sinks, drafts, versions, arithmetic, source
constexpr SupportRow kRows[] = {
    {kS, "", kHalf, "any", "", "", "yes", "yes", "yes", "", kWidened, kDocs},
    {kS, "flashinfer", kHalf, "sm80+", "", "", "yes", "?", "yes", "", kWidened, kDocs},
    {kS, "fa3", kHalf, "sm80-90", "", "", "yes", "?", "yes", "", kWidened, kDocs},
    {kS, "triton", kHalf, "sm80+ amd", "", "", "yes", "?", "yes", "", kWidened, kDocs},
    {kS, "trtllm_mha", kHalf, "sm10x", "heads", "", "yes", "?", "yes", "", kWidened, kDocs},
    {kS, "trtllm_mla", kHalf, "sm10x", "mla sparse", "", "yes", "?", "?", "", kWidened, kDocs},
    {kS, "flashmla", kHalf, "sm90+", "mla", "", "no", "?", "yes", "", kWidened, kDocs},
    {kS, "cutlass_mla", kHalf, "sm10x", "mla", "", "no", "?", "yes", "", kWidened, kDocs},
    {kS, "torch_native", kHalf, "any", "", "", "no", "?", "no", "", kWidened, kDocs},
    {kS, "flex_attention", kHalf, "any", "", "", "no", "?", "no", "", kWidened, kDocs},
    {kS, "fa4", kHalf, "sm10x", "", "", "no", "?", "?", "", kWidened, kDocs},
    {kS, "aiter", kHalf, "amd", "", "", "no", "?", "yes", "", kWidened, kDocs},
    // FP8. FA4, FlexAttention, Wave, Ascend and AMX take none; FA3 takes E4M3 alone, and with MLA none.
    {kS, "fa3", kE4m3, "sm80-90", "heads", "", "yes", "?", "yes", "", "fp8", kFa3},
    {kS, "flashinfer", kFp8, "sm80+", "heads", "", "yes", "?", "yes", "", "?", kDocs},
    {kS, "triton", kE4m3, "sm89+ amd", "heads", "", "yes", "?", "yes", "", "?", kDocs},
    {kS, "triton", kE5m2, "sm80+ amd", "heads", "", "yes", "?", "yes", "", kWidened, kDocs},
    {kS, "trtllm_mha", kFp8, "sm10x", "heads", "", "yes", "?", "yes", "", "fp8", kDocs},
    {kS, "torch_native", kFp8, "any", "heads", "", "no", "?", "no", "", kWidened, kDocs},
    {kS, "aiter", kFp8, "amd", "heads", "", "no", "?", "yes", "", "?", kDocs},
    {kS, "flashmla", kFp8, "sm90+", "mla", "", "no", "?", "yes", "", "?", kDocs},
    {kS, "trtllm_mla", kFp8, "sm10x", "mla", "", "yes", "?", "?", "", "?", kDocs},
    {kS, "cutlass_mla", kFp8, "sm10x", "mla", "", "no", "?", "yes", "", "?", kDocs},
    {kS, "cutedsl_mla", kFp8, "sm10x", "mla", "", "?", "?", "?", "", "?", kDocs},
    {kS, "tokenspeed_mla", kE4m3, "sm10x", "mla", "", "?", "?", "?", "", "fp8", kDocs},
    {kS, "aiter", kFp8, "amd", "mla", "", "no", "?", "yes", "", "?", kDocs},
    {kS, "nsa", kFp8, "sm90+ amd", "sparse", "", "no", "?", "?", "", "?", kDocs},
    // Four bits.
    {kS, "trtllm_mha", "nvfp4", "sm10x", "heads", "%64", "yes", "?", "yes", "", "fp8", kFp4},
    {kS, "trtllm_mla", "nvfp4", "sm10x", "mla", "", "?", "?", "?", "", "?", kDocs},
    {kS, "flashmla", "nvfp4", "sm10x", "mla", "", "no", "?", "?", "", "?", kDocs},
    {kS, "cutlass_mla", "nvfp4", "sm10x", "mla", "", "no", "?", "?", "", "?", kDocs},
    {kS, "trtllm_mha", "nvfp4", "sm12x", "heads", "", "?", "?", "?", "", kWidened,
     "SGLang, docs quantized_kv_cache: XQA with a linear scale layout on SM120 (2026)"},
    {kS, "triton", kMx, "sm80+", "", "", "?", "?", "?", "", kWidened, kFp4},
    {kS, "torch_native", kMx, "sm80+", "heads", "", "no", "?", "no", "", kWidened, kFp4},
    {kS, "flex_attention", kMx, "sm80+", "heads", "", "no", "?", "no", "", kWidened, kFp4},
    {kS, "trtllm_mha", kMx, "sm10x", "heads", "", "?", "?", "?", "", kWidened, kFp4},
    {kS, "fa4", kMx, "sm10x", "", "", "no", "?", "?", "", kWidened, kFp4},
    // TensorRT-LLM: one attention of its own.
    {kT, "", "auto", "sm80+", "", "", "yes", "yes", "yes", "", kWidened, kTrt},
    {kT, "TRTLLM", "fp8", "sm80-88", "", "", "?", "?", "?", "", kWidened, kTrt},
    {kT, "TRTLLM", "fp8", "sm89+", "", "", "?", "?", "?", "", "fp8", kTrt},
    {kT, "TRTLLM", "nvfp4", "sm100 sm103", "", "%16", "?", "?", "?", "", "fp8", kTrt},
    // llama.cpp: every build stores every type; what is fast is another matter.
    {kL, "", "f32 f16 bf16", "any", "", "", "yes", "yes", "yes", "", kWidened, kLlama},
    {kL, "flash attention", kGgml, "any", "", "%32", "yes", "yes", "?", "", kWidened, kLlamaFa},
    {kH, "CPU kernels",
     "bf16 fp16 fp8_e4m3 fp8_e4m3fnuz fp8_e5m2 nvfp4 nvfp4_4over6 mxfp4 int8_per_token_head q8_0 q4_0", "cpu", "", "",
     "?", "?", "?", "", kWidened, "docs/formats/README.md"},
};

}  // namespace

std::span<const SupportRow> OtherSupportRows() { return kRows; }

std::span<const SupportRow> SupportRows() {
  static const std::vector<SupportRow> kAll = [] {
    std::vector<SupportRow> rows(VllmSupportRows().begin(), VllmSupportRows().end());
    rows.insert(rows.end(), OtherSupportRows().begin(), OtherSupportRows().end());
    return rows;
  }();
  return kAll;
}

}  // namespace haypile
