// vLLM: what each attention backend takes, from its own files (vllm/v1/attention/backends, main of 2026-08-20) and the
// page that is generated from them (docs/design/attention_backends.md). Versions from the planner's reading of releases
// (vllm_versions.cc).
#include "planner/engine_support_rows.h"

namespace haypile {
namespace {

constexpr EngineKind kV = EngineKind::kVllm;
constexpr std::string_view kSource =
    "vLLM, vllm/v1/attention/backends and docs/design/attention_backends.md (main, 2026-08-20)";
constexpr std::string_view kCpuSource = "vLLM, cpu_attn.py; PR 39445 (FP8 cache on the CPU, 2026-04-29)";
constexpr std::string_view kOldSource = "vLLM, issue 3965 (2024-04)";

constexpr std::string_view kHalf = "auto float16 bfloat16";
constexpr std::string_view kE4m3 = "fp8 fp8_e4m3", kFp8 = "fp8 fp8_e4m3 fp8_e5m2";
constexpr std::string_view kNvfp4 = "nvfp4 nvfp4_4over6";
constexpr std::string_view kTurboquant = "turboquant_k8v4 turboquant_4bit_nc turboquant_k3v4_nc turboquant_3bit_nc";
constexpr std::string_view kRead = "0.19+", kPacked = "0.20+", kCpuFp8 = "0.21+";
constexpr std::string_view kFlashInferHeads = "64,128,256,512", kRocmHeads = "32,64,80,96,128,160,192,224,256";
constexpr std::string_view kCpuHeads = "32,64,80,96,112,128,160,192,224,256,512";
constexpr std::string_view kWidened = "16 bits";
constexpr bool kNamedOnly = true;

// engine, backend, dtypes, devices, layouts, heads, windows, sinks, drafts, versions, arithmetic, source
constexpr SupportRow kRows[] = {
    // The model's own 16 bits: every start without --kv-cache-dtype.
    {kV, "", kHalf, "any", "", "", "yes", "yes", "yes", "", kWidened, kSource},
    {kV, "FLASH_ATTN", kHalf, "sm80-89", "heads", "%8 <=256", "yes", "no", "yes", kRead, kWidened, kSource},
    {kV, "FLASH_ATTN", kHalf, "sm90+", "heads", "%8 <=512", "yes", "yes", "yes", kRead, kWidened, kSource},
    {kV, "FLASHINFER", kHalf, "sm80-99", "heads", kFlashInferHeads, "yes", "no", "yes", kRead, kWidened, kSource},
    {kV, "FLASHINFER", kHalf, "sm100-121", "heads", kFlashInferHeads, "yes", "yes", "yes", kRead, kWidened, kSource},
    {kV, "TRITON_ATTN", kHalf, "cuda amd", "heads", ">=32", "yes", "yes", "yes", kRead, kWidened, kSource},
    {kV, "FLEX_ATTENTION", kHalf, "cuda", "heads", "", "?", "no", "?", kRead, kWidened, kSource},
    {kV, "ROCM_ATTN", kHalf, "amd", "heads", kRocmHeads, "yes", "no", "?", kRead, kWidened, kSource},
    {kV, "ROCM_AITER_UNIFIED_ATTN", kHalf, "amd", "heads", ">=32", "?", "yes", "?", kRead, kWidened, kSource},
    {kV, "ROCM_AITER_FA", kHalf, "amd", "heads", "64,128,256", "?", "yes", "?", kRead, kWidened, kSource},
    {kV, "HPC_ATTN", "auto bfloat16", "sm9x", "heads", "128", "no", "?", "?", kRead, kWidened, kSource, kNamedOnly},
    {kV, "CPU_ATTN", "auto", "cpu", "heads", kCpuHeads, "yes", "yes", "?", kRead, kWidened, kSource},
    {kV, "FLASH_ATTN_MLA", kHalf, "sm9x", "mla", "", "?", "?", "yes", kRead, kWidened, kSource},
    {kV, "FLASHMLA", kHalf, "sm9x sm10x", "mla", "", "?", "?", "yes", kRead, kWidened, kSource},
    {kV, "FLASHINFER_MLA", kHalf, "sm10x", "mla", "", "?", "?", "yes", kRead, kWidened, kSource},
    {kV, "CUTLASS_MLA", kHalf, "sm10x", "mla", "", "?", "?", "?", kRead, kWidened, kSource},
    {kV, "TRITON_MLA", kHalf, "cuda", "mla", "", "?", "?", "?", kRead, kWidened, kSource},
    {kV, "ROCM_AITER_MLA", kHalf, "amd", "mla", "", "?", "?", "?", kRead, kWidened, kSource},
    {kV, "CPU_MLA", "auto", "cpu", "mla", "", "?", "?", "?", kRead, kWidened, kSource},
    {kV, "FLASHMLA_SPARSE", "auto bfloat16", "sm9x sm10x", "sparse", "", "?", "?", "?", kRead, kWidened, kSource},
    {kV, "FLASHINFER_MLA_SPARSE", kHalf, "sm10x", "sparse", "", "?", "?", "?", kRead, kWidened, kSource},
    {kV, "FLASH_ATTN_MLA_SPARSE", kHalf, "sm9x", "sparse", "", "?", "?", "?", kRead, kWidened, kSource},
    {kV, "FLASHINFER_MLA_SPARSE_SM120", "auto", "sm12x", "sparse", "", "?", "?", "?", kRead, kWidened, kSource},
    // FP8 by head. FlashAttention takes E4M3 where it resolves to FA3 (9.x) or FA4 (10.x).
    {kV, "FLASH_ATTN", kE4m3, "sm9x", "heads", "%8 <=256", "yes", "yes", "?", kRead, "fp8", kSource},
    {kV, "FLASH_ATTN", kE4m3, "sm10x", "heads", "%8 <=128", "yes", "yes", "?", kRead, "fp8", kSource},
    {kV, "FLASHINFER", kFp8, "sm80-89", "heads", kFlashInferHeads, "yes", "no", "?", kRead, kWidened, kSource},
    {kV, "FLASHINFER", kFp8, "sm9x", "heads", kFlashInferHeads, "yes", "no", "?", kRead, "fp8 in prefill", kSource},
    {kV, "FLASHINFER", kFp8, "sm10x", "heads", kFlashInferHeads, "yes", "yes", "?", kRead, "fp8", kSource},
    {kV, "FLASHINFER", kFp8, "sm12x", "heads", kFlashInferHeads, "yes", "yes", "?", kRead, kWidened, kSource},
    {kV, "TRITON_ATTN", kFp8, "sm89+", "heads", ">=32", "yes", "yes", "?", kRead, "fp8", kSource},
    {kV, "HPC_ATTN", "fp8_e4m3", "sm9x", "heads", "128", "no", "?", "?", kRead, "?", kSource, kNamedOnly},
    {kV, "ROCM_ATTN", kFp8, "amd", "heads", kRocmHeads, "yes", "no", "?", kRead, "?", kSource},
    {kV, "ROCM_AITER_UNIFIED_ATTN", kFp8, "amd", "heads", ">=32", "?", "yes", "?", kRead, "?", kSource},
    {kV, "ROCM_AITER_FA", kFp8, "amd", "heads", "64,128,256", "?", "yes", "?", kRead, "?", kSource},
    {kV, "TRITON_ATTN", kFp8, "amd", "heads", ">=32", "yes", "yes", "?", kRead, "?", kSource},
    {kV, "CPU_ATTN", kFp8, "cpu", "heads", "%32 32,64,96,128,160,192,224,256,512", "yes", "yes", "?", kCpuFp8, kWidened,
     kCpuSource},
    {kV, "paged attention", "fp8_e5m2", "sm80-89", "heads", "", "?", "?", "?", "..0.18", kWidened, kOldSource},
    // FP8 of latent rows.
    {kV, "FLASHINFER_MLA", kE4m3, "sm10x", "mla", "", "?", "?", "?", kRead, "fp8", kSource},
    {kV, "TOKENSPEED_MLA", kE4m3, "sm10x", "mla", "", "?", "?", "?", kRead, "fp8", kSource},
    {kV, "CUTLASS_MLA", kE4m3, "sm10x", "mla", "", "?", "?", "?", kRead, "?", kSource},
    {kV, "FLASHMLA", kE4m3, "sm9x sm10x", "mla", "", "?", "?", "?", kRead, "?", kSource},
    {kV, "TRITON_MLA", kE4m3, "sm89+", "mla", "", "?", "?", "?", kRead, "?", kSource},
    {kV, "ROCM_AITER_MLA", kFp8, "amd", "mla", "", "?", "?", "?", kRead, "?", kSource},
    {kV, "FLASHINFER_MLA_SPARSE", kE4m3, "sm10x", "sparse", "", "?", "?", "?", kRead, "?", kSource},
    {kV, "FLASHMLA_SPARSE", "fp8 fp8_e4m3 fp8_ds_mla", "sm9x sm10x", "sparse", "", "?", "?", "?", kRead, "?", kSource},
    {kV, "FLASHINFER_MLA_SPARSE_SM120", "fp8 fp8_e4m3 fp8_ds_mla", "sm12x", "sparse", "", "?", "?", "?", kRead, "?",
     kSource},
    // Four bits, and scales beside the values.
    {kV, "FLASHINFER", kNvfp4, "sm10x", "heads", kFlashInferHeads, "yes", "yes", "?", kPacked, "fp8",
     "vLLM, flashinfer.py (trtllm-gen for prefill and decode; main, 2026-08-20)"},
    {kV, "TRITON_ATTN", "fp8_per_token_head", "sm89+", "heads", ">=32", "yes", "yes", "?", kPacked, "?", kSource},
    {kV, "TRITON_ATTN", "int8_per_token_head", "sm70+ amd", "heads", ">=32", "yes", "yes", "?", kPacked, "?", kSource},
    {kV, "TRITON_ATTN", "int4_per_token_head", "sm70+ amd", "heads", ">=32 pow2", "yes", "yes", "?", kPacked, "?",
     "vLLM, triton_attn.py (main, 2026-08-20); issue 56197"},
    {kV, "TURBOQUANT", kTurboquant, "sm70+ amd", "heads", "", "?", "no", "?", kPacked, "?", kSource},
    {kV, "", "fp8_inc", "gaudi", "", "", "?", "?", "?", "", "fp8", "vLLM, config/cache.py: the Gaudi plugin alone"},
};

}  // namespace

std::span<const SupportRow> VllmSupportRows() { return kRows; }

}  // namespace haypile
