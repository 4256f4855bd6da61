#include "inspect/engine_rule.h"

namespace haypile {
namespace {

constexpr uint32_t kAttention = FamilyBit(KvScaleFamily::kAttention);
constexpr uint32_t kEngineName = FamilyBit(KvScaleFamily::kEngine);
constexpr uint32_t kProjection = FamilyBit(KvScaleFamily::kProjection);
constexpr uint32_t kFused = FamilyBit(KvScaleFamily::kFused);
constexpr uint32_t kOutput = FamilyBit(KvScaleFamily::kOutput);
constexpr uint32_t kShared = FamilyBit(KvScaleFamily::kShared);
constexpr uint32_t kTrtLlm = FamilyBit(KvScaleFamily::kTrtLlm);
constexpr uint32_t kQuantizer = FamilyBit(KvScaleFamily::kBmmQuantizer);
constexpr uint32_t kCacheModule = FamilyBit(KvScaleFamily::kCacheModule);

constexpr std::string_view kVllm = "vLLM 2026-08-20 (7cfb97e3), model_loader and quantization/kv_cache.py";
constexpr std::string_view kSglang = "SGLang 2026 (078e5e2a), layers/quantization/kv_cache.py";
constexpr std::string_view kSglangFp4 = "SGLang 2026 (02719cd1), fp4_kv_cache_quant_method.py";
constexpr std::string_view kTrt = "TensorRT-LLM, _torch/modules/linear.py";

constexpr std::string_view kVllmNow = "0.27 to 0.28";
constexpr std::string_view kSglangNow = "from 2026-08";
constexpr std::string_view kSglangOld = "before 2026-08";

// The scheme is judged before any name is looked at; then the method; then the names.
constexpr EngineRule kRules[] = {
    {"vLLM", kVllmNow, 0, kSchemeUnsupported | kCompressedTensors, 0, "", ScaleOutcome::kRefused,
     "kv_cache_scheme is not 8-bit float, symmetric, static, per tensor or per head: NotImplementedError, in some "
     "releases only after the KV pool was logged",
     "vllm-project/vllm#45312"},
    {"vLLM", kVllmNow, 0, kSchemeUnsupported | kQuark, 0, "", ScaleOutcome::kRefused,
     "Quark caches are read as fp8_e4m3 per tensor only", kVllm},
    {"vLLM", kVllmNow, 0, kSchemeUnsupported | kModelOpt, 0, "", ScaleOutcome::kDropped,
     "'Unknown kv_cache_quant_algo': a warning, and the cache keeps the model's dtype, whatever scales there are",
     kVllm},
    {"vLLM", kVllmNow, 0, kNvfp4Cache | kLatent, 0, "", ScaleOutcome::kRefused,
     "'nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends': use fp8 or auto", kVllm},
    {"vLLM", kVllmNow, 0, kNoScales | kSchemeDeclared | kCompressedTensors, 0, "", ScaleOutcome::kAtOne,
     "the scheme switches the cache to FP8, and scales start at 1.0 without a mark for 'missing': no warning at all",
     kVllm},
    {"vLLM", kVllmNow, 0, kNoScales, 0, "", ScaleOutcome::kAtOne,
     "an FP8 cache runs at 1.0; 'Using KV cache scaling factor 1.0' is printed only where the method has KV scales",
     kVllm},
    {"vLLM", kVllmNow, 0, kHasScales | kNoConfig, 0, "", ScaleOutcome::kDropped,
     "no quantization_config, so no layer has a parameter for them: the cache runs at 1.0, without a scale warning",
     kVllm},
    {"vLLM", kVllmNow, 0, kHasScales | kOtherMethod, 0, "", ScaleOutcome::kDropped,
     "this method gives attention no KV scales (Fp8, ModelOpt, Quark and compressed-tensors do): run at 1.0", kVllm},
    {"vLLM", kVllmNow, 0, kHasScales | kPerHead | kSchemePerHead | kCompressedTensors | kBadShape, 0, "",
     ScaleOutcome::kRefused, "the number of values is not the number of KV heads: they do not fit the parameter",
     kVllm},
    {"vLLM", kVllmNow, 0, kHasScales | kPerHead | kSchemePerHead | kCompressedTensors, 0, "", ScaleOutcome::kLoaded,
     "one value a head, sharded by tensor parallelism; needs FLASH_ATTN (FA3 or newer), other backends are refused",
     kVllm},
    {"vLLM", kVllmNow, 0, kHasScales | kPerHead, 0, "", ScaleOutcome::kRefused,
     "'KV-cache scale expects a scalar weight': per-head scales need kv_cache_scheme with strategy attn_head", kVllm},
    {"vLLM", kVllmNow, 0, kHasScales | kSchemePerHead | kCompressedTensors, kPerHead, "", ScaleOutcome::kUnknown,
     "strategy attn_head wants one value a head, and the file has one a layer: not known to be spread over the heads",
     kVllm},
    {"vLLM", kVllmNow, 0, kHasScales, 0, "Qwen3_5 Qwen3.5 Qwen3_8", ScaleOutcome::kDropped,
     "this family's loaders never map the scale tensors (0.27.1): FP8 cache at 1.0, with only the 1.0 line to tell",
     "vllm-project/vllm#54623"},
    {"vLLM", kVllmNow, kTrtLlm | kQuantizer, kHasScales, 0, "", ScaleOutcome::kDropped,
     "not a name that the loader maps; run at 1.0", kVllm},
    {"vLLM", kVllmNow, kProjection | kFused | kCacheModule, kHasScales | kModuleNotMapped, 0, "",
     ScaleOutcome::kDropped,
     "the mapper knows self_attn and mixer with k_proj, v_proj, qkv_proj and k_cache; under other modules the name "
     "becomes "
     "one that no parameter has: 'Found k_scale in the checkpoint ... is not loaded', run at 1.0",
     kVllm},
    {"vLLM", kVllmNow, kOutput, kHasScales | kFp8Method, 0, "", ScaleOutcome::kRenamed,
     "output_scale of k_proj and v_proj becomes attn.k_scale and attn.v_scale", kVllm},
    {"vLLM", kVllmNow, kOutput, kHasScales | kQuark, 0, "", ScaleOutcome::kRenamed,
     "output_scale of k_proj and v_proj becomes attn.k_scale and attn.v_scale", kVllm},
    {"vLLM", kVllmNow, kOutput, kHasScales, 0, "", ScaleOutcome::kDropped,
     "output_scale is mapped for Fp8 and Quark checkpoints only; run at 1.0", kVllm},
    {"vLLM", kVllmNow, kShared, kHasScales, 0, "", ScaleOutcome::kRenamed,
     "deprecated: becomes k_scale and is copied to v_scale, with a DEPRECATED line", kVllm},
    {"vLLM", kVllmNow, kAttention | kEngineName | kProjection | kFused | kCacheModule,
     kHasScales | kNvfp4Cache | kBy448, 0, "", ScaleOutcome::kRenamed,
     "used as they are, by a kernel that wants amax / 2688: block scales come out six times smaller, so that blocks of "
     "small values sink into E4M3's subnormals sooner",
     "vLLM 2026-08-20 (7cfb97e3), csrc/libtorch_stable/nvfp4_kv_cache_kernels.cu"},
    {"vLLM", kVllmNow, kEngineName, kHasScales, 0, "", ScaleOutcome::kLoaded, "the engine's own name", kVllm},
    {"vLLM", kVllmNow, kAttention | kProjection | kFused | kCacheModule, kHasScales, 0, "", ScaleOutcome::kRenamed,
     "becomes attn.k_scale and attn.v_scale; on gfx94x (FNUZ) doubled, except under compressed-tensors", kVllm},

    {"vLLM", "0.32.0, CPU (measured)", kOutput, kHasScales | kCompressedTensors, 0, "", ScaleOutcome::kRefused,
     "the start ends with AttributeError: 'QKVParallelLinear' object has no attribute 'data'", "docs/inspect.md"},
    {"vLLM", "0.32.0, CPU (measured)", kAttention | kEngineName, kHasScales | kCompressedTensors | kSchemeDeclared,
     kPerHead | kSchemeUnsupported, "", ScaleOutcome::kLoaded,
     "loaded; no line of the log tells it from scales of 1.0 (only what the model answers does)", "docs/inspect.md"},
    {"vLLM", "2025-09 to 2026-03", 0, kHasScales, 0, "Qwen3Moe", ScaleOutcome::kDropped,
     "the names match the MoE loader's ignored suffixes before they are renamed; fixed by #35656",
     "vllm-project/vllm#25047"},
    {"vLLM", "early 2026", kProjection, kHasScales, 0, "Glm4Moe Glm4v_moe Glm4vMoe", ScaleOutcome::kRefused,
     "your file stores KV scales per projection; this loader renames k_proj.k_scale to qkv_proj.k_scale before it "
     "looks for scales and stops with a bare KeyError 'layers.N.self_attn.qkv_proj.k_scale': upgrade, or rewrite the "
     "names to attn.k_scale",
     "vllm-project/vllm#34293"},
    {"vLLM", "early 2026", kProjection, kHasScales, 0, "Moe MoE MOE Mixtral Dbrx", ScaleOutcome::kUnknown,
     "MoE loaders of that time that rename stacked weights before scales stop with KeyError "
     "'layers.N.self_attn.qkv_proj.k_scale'; seen with GLM-4 MoE, not known of this architecture",
     "vllm-project/vllm#34293"},
    {"vLLM", "2026-09 (open)", 0, kHasScales | kSharedLayers, 0, "Gemma", ScaleOutcome::kWrong,
     "layers that read another layer's cache dequantize it with 1.0: the scales of the layer that wrote it do not "
     "reach "
     "them",
     "vllm-project/vllm#55559"},
    {"vLLM", "0.19, FLASHINFER or AITER", kAttention | kEngineName | kProjection | kFused,
     kHasScales | kCompressedTensors | kSchemeDeclared, kPerHead | kSchemeUnsupported, "", ScaleOutcome::kWrong,
     "these backends read copies of the scales as numbers, which the loader does not update: garbage",
     "vllm-project/vllm#34863"},
    {"vLLM", "mid 2024", 0, kKvOnly | kCompressedTensors, 0, "", ScaleOutcome::kRefused,
     "the loader compares the weight schemes of q, k and v, which a KV-only checkpoint does not have: refused as a "
     "mismatch",
     "vllm-project/compressed-tensors#135"},
    {"vLLM", "late 2024", kShared, kHasScales | kOtherLayerNames, 0, "", ScaleOutcome::kRefused,
     "kv_scale is renamed in some model files only: KeyError at load", "vllm-project/vllm#10063"},

    {"SGLang", kSglangNow, 0, kSchemeUnsupported, 0, "", ScaleOutcome::kUnknown,
     "not known to run a cache of this scheme; --kv-cache-dtype auto keeps the model's dtype", kSglang},
    {"SGLang", kSglangNow, 0, kNoScales, 0, "", ScaleOutcome::kAtOne,
     "an FP8 cache runs at 1.0 unless --quantization-param-path gives scales", kSglang},
    {"SGLang", kSglangNow, 0, kHasScales | kPerHead, 0, "", ScaleOutcome::kRefused,
     "ValueError 'Only support per-tensor scaling factor for fp8 KV cache'", kSglang},
    {"SGLang", kSglangNow, kProjection | kFused | kShared, kHasScales, 0, "Qwen3Moe Qwen2For Qwen2Moe Mixtral",
     ScaleOutcome::kDropped, "these loaders lose the name without an error: run at 1.0 (seen 2026-09-17)",
     "sgl-project/sglang#39942"},
    {"SGLang", kSglangNow, kTrtLlm | kQuantizer, kHasScales, 0, "", ScaleOutcome::kDropped,
     "not a name that the loaders map; run at 1.0", kSglang},
    {"SGLang", kSglangNow, 0, kHasScales | kNoConfig, 0, "", ScaleOutcome::kDropped,
     "without a quantization config attention has no scale parameters; run at 1.0", kSglang},
    {"SGLang", kSglangNow, kProjection | kAttention | kEngineName, kHasScales | kNvfp4Cache | kBy448, 0, "",
     ScaleOutcome::kWrong,
     "on SM100 the scale is multiplied by 6 whatever wrote it: these, amax / 448, become six times too large",
     kSglangFp4},
    {"SGLang", kSglangNow, kProjection | kAttention | kEngineName, kHasScales | kNvfp4Cache | kBy2688, 0, "",
     ScaleOutcome::kLoaded, "on SM100 the scale is multiplied by 6, which is right for these (amax / 2688)",
     kSglangFp4},
    {"SGLang", kSglangNow, kProjection | kAttention | kEngineName, kHasScales | kNvfp4Cache, 0, "",
     ScaleOutcome::kUnknown,
     "on SM100 the scale is multiplied by 6 whatever wrote it: right for amax / 2688, six times too large for amax / "
     "448 "
     "(ModelOpt's Hugging Face export since 2026-01-20)",
     kSglangFp4},
    {"SGLang", kSglangNow, 0, kHasScales | kCompressedTensors, 0, "", ScaleOutcome::kLoaded,
     "into attn.k_scale and attn.v_scale, doubled on FNUZ, with --kv-cache-dtype fp8_e4m3: auto takes FP8 from "
     "ModelOpt's "
     "files alone and keeps the model's dtype here; the line 'no scaling factors provided' is printed all the same (a "
     "false "
     "alarm, sgl-project/sglang#31224)",
     kSglang},
    {"SGLang", kSglangNow, 0, kHasScales, 0, "", ScaleOutcome::kLoaded,
     "into attn.k_scale and attn.v_scale, doubled on FNUZ; the line 'no scaling factors provided' is printed all the "
     "same when the dtype is fp8_e4m3 (a false alarm, sgl-project/sglang#31224)",
     kSglang},
    {"SGLang", kSglangOld, 0, kHasScales | kCompressedTensors | kSchemeDeclared, 0, "", ScaleOutcome::kDropped,
     "kv_cache_scheme was parsed and not passed on: 'Parameter ... not found in params_dict', FP8 cache at 1.0",
     "sgl-project/sglang#35455"},
    {"SGLang", "a pull request of 2026-05", 0, kHasScales | kPerHead, 0, "", ScaleOutcome::kWrong,
     "under tensor parallelism each rank takes one head's value for all of its heads, without a word",
     "sgl-project/sglang#26436"},

    {"TensorRT-LLM", "to 2026-07", 0, kKEqualsV | kModelOpt, 0, "", ScaleOutcome::kRefused,
     "layers with k_proj and no v_proj: the loader copies the weight of K to V, not its scales (KeyError 'v')",
     "NVIDIA/TensorRT-LLM#16867"},
    {"TensorRT-LLM", "from 2026-04", 0, kNoScales, 0, "", ScaleOutcome::kAtOne, "an FP8 cache stores at unit scale",
     kTrt},
    {"TensorRT-LLM", "from 2026-04", kProjection, kHasScales | kNvfp4Cache | kBy2688, kPerHead, "",
     ScaleOutcome::kWrong,
     "a unit test of mid 2026 expects k_scale and v_scale unmultiplied, as amax / 448: these, amax / 2688, are six "
     "times "
     "too small there",
     "NVIDIA/TensorRT-LLM#12938"},
    {"TensorRT-LLM", "from 2026-04", kProjection, kHasScales, kPerHead, "", ScaleOutcome::kLoaded,
     "TRTLLM_LOAD_KV_SCALES=1 is the default; one value for a layer, the largest of the shards",
     "NVIDIA/TensorRT-LLM#12938"},
    {"TensorRT-LLM", "from 2026-04", 0, kHasScales, 0, "", ScaleOutcome::kUnknown,
     "the loader reads k_proj.k_scale and v_proj.v_scale; other names and shapes are not known to be read", kTrt},
    {"TensorRT-LLM", "before 2026-04", kProjection, kHasScales | kNvfp4Cache, 0, "", ScaleOutcome::kAtOne,
     "read only with TRTLLM_LOAD_KV_SCALES=1, and then multiplied by 6 (meant for amax / 2688)", kTrt},
    {"TensorRT-LLM", "before 2026-04", kProjection, kHasScales, 0, "", ScaleOutcome::kAtOne,
     "read only with TRTLLM_LOAD_KV_SCALES=1 (default 0)", kTrt},

    {"TensorRT-LLM", "engines of trtllm-build", kTrtLlm, kHasScales, 0, "", ScaleOutcome::kLoaded,
     "the name that these engines read: one value for K and V", "ModelOpt's export of TensorRT-LLM engines"},

    {"llama.cpp", "all", 0, 0, 0, "", ScaleOutcome::kNotApplicable,
     "its caches have scales in their blocks; KV scales of a checkpoint are not converted to GGUF",
     "ggml block formats"},
    {"Haypile", "0.1", 0, 0, kPlainWeights, "", ScaleOutcome::kRefused,
     "the weights are quantized; plain ones (F32, F16, BF16) are read, with or without a quantized cache",
     "docs/kv-scales.md"},
    {"Haypile", "0.1", 0, kHasScales | kSchemeUnsupported, 0, "", ScaleOutcome::kDropped,
     "made for a cache that Haypile has not: a line says so, and scales are 1.0", "docs/kv-scales.md"},
    {"Haypile", "0.1", kTrtLlm | kQuantizer | kCacheModule, kHasScales, 0, "", ScaleOutcome::kDropped,
     "a range, or a name whose direction of scaling is not known: a line says so, and scales are 1.0",
     "docs/kv-scales.md"},
    {"Haypile", "0.1", 0, kHasScales | kBadValues, 0, "", ScaleOutcome::kRefused,
     "a scale lies between 2^-100 and 2^100: zero, negative numbers, NaN and integers end the command, unless "
     "--kv-scales "
     "replaces "
     "them",
     "docs/kv-scales.md"},
    {"Haypile", "0.1", 0, kHasScales | kBadShape, 0, "", ScaleOutcome::kRefused,
     "neither one value a layer nor one for each KV head", "docs/kv-scales.md"},
    {"Haypile", "0.1", 0, kHasScales, 0, "", ScaleOutcome::kLoaded,
     "where Haypile runs the model: of one value or one a KV head, turned into those of the cache's dtype; layers "
     "without one run at 1.0; "
     "--kv-scales goes "
     "before them",
     "docs/kv-scales.md"},
    {"Haypile", "0.1", 0, kNoScales, 0, "", ScaleOutcome::kAtOne, "1.0 unless --kv-scales gives scales",
     "docs/kv-scales.md"},
};

}  // namespace

std::span<const EngineRule> EngineRules() { return kRules; }

std::string_view ScaleOutcomeName(ScaleOutcome outcome) {
  switch (outcome) {
    case ScaleOutcome::kLoaded:
      return "loaded";
    case ScaleOutcome::kRenamed:
      return "renamed and loaded";
    case ScaleOutcome::kDropped:
      return "dropped";
    case ScaleOutcome::kRefused:
      return "refused";
    case ScaleOutcome::kAtOne:
      return "run at 1.0";
    case ScaleOutcome::kWrong:
      return "loaded wrongly";
    case ScaleOutcome::kNotApplicable:
      return "not applicable";
    case ScaleOutcome::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace haypile
