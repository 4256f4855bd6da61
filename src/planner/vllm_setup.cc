#include "planner/vllm_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "planner/number_text.h"

namespace haypile {
namespace {

void Refuse(PoolPlan& plan, std::string reason) {
  if (!plan.refused) plan.refused = Refusal{std::move(reason), std::nullopt};
}

void FindLayerKinds(const ModelGeometry& model, VllmSetup& setup) {
  bool attention = false;
  for (const LayerGeometry& layer : model.layers) {
    setup.latent = setup.latent || layer.cache == CacheKind::kMla;
    setup.states = setup.states || layer.cache == CacheKind::kStateSpace;
    setup.windows =
        setup.windows || layer.cache == CacheKind::kSlidingWindow || layer.cache == CacheKind::kChunkedAttention;
    attention = attention || (layer.cache != CacheKind::kStateSpace && layer.cache != CacheKind::kNone);
  }
  setup.hybrid = setup.states && attention;
}

// What "auto" means: the dtype that the checkpoint asks for, else the model's own.
std::string ResolveAuto(const ModelGeometry& model, const std::string& asked) {
  if (asked == "bfloat16" && model.architecture == "DeepseekV32ForCausalLM") return "auto";
  if (asked != "auto" || model.checkpoint_kv_dtype.empty()) return asked;
  if (model.checkpoint_kv_dtype == "fp8") {
    return model.quantization_method.starts_with("modelopt") ? "fp8_e4m3" : "fp8";
  }
  return model.checkpoint_kv_dtype;
}

Status ResolveDtypes(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup, PoolPlan& plan) {
  Result<VllmKvDtype> dtype = ParseVllmKvDtype(ResolveAuto(model, request.kv_cache_dtype));
  if (!dtype) return std::move(dtype).error();
  setup.dtype = *dtype;
  const bool packed =
      setup.dtype.Quantized() && setup.dtype.mode != VllmKvMode::kFp8 && setup.dtype.mode != VllmKvMode::kFp8DsMla;
  if (packed && !setup.rules.packed_dtypes) {
    Refuse(plan,
           fmt::format("argument --kv-cache-dtype: invalid choice: '{}' (vLLM has it since 0.20)", setup.dtype.name));
  }
  if (setup.dtype.PerTokenHead()) {
    plan.log_lines.push_back(
        fmt::format("Using {} data type to store kv cache. It reduces the GPU memory footprint and boosts the "
                    "performance. Dynamic per-token-head scales will be computed at runtime.",
                    setup.dtype.name));
  } else if (setup.dtype.Quantized() && setup.dtype.mode != VllmKvMode::kTurboquant) {
    plan.log_lines.push_back(
        fmt::format("Using {} data type to store kv cache. It reduces the GPU memory footprint and boosts the "
                    "performance. Meanwhile, it may cause accuracy drop without a proper scaling factor",
                    setup.dtype.name));
  }
  VllmBackendChoice choice = ChooseVllmBackend(model, request, setup.dtype, setup.rules);
  setup.dtype = choice.dtype;
  setup.backend = choice.backend;
  plan.log_lines.insert(plan.log_lines.end(), choice.log_lines.begin(), choice.log_lines.end());
  plan.warnings.insert(plan.warnings.end(), choice.warnings.begin(), choice.warnings.end());
  if (!choice.refusal.empty()) Refuse(plan, choice.refusal);
  plan.resolved_kv_cache_dtype = setup.dtype.name == "auto" ? VllmModelDtypeName(model) : setup.dtype.name;
  setup.draft_dtype = setup.dtype;
  if (request.speculative && !request.speculative->draft_kv_dtype.empty()) {
    Result<VllmKvDtype> draft = ParseVllmKvDtype(request.speculative->draft_kv_dtype);
    if (!draft) return std::move(draft).error();
    setup.draft_dtype = *draft;
  }
  return {};
}

// CacheConfig, and the platforms' own defaults; the alignment of hybrids comes later.
void ResolveBlockSize(const PlanRequest& request, VllmSetup& setup, PoolPlan& plan) {
  setup.user_block = request.block_size.has_value();
  setup.block_size = request.block_size.value_or(setup.backend.default_block);
  if (request.device == DeviceKind::kGpu) {
    if (!setup.user_block && setup.block_size != 16) {
      plan.log_lines.push_back(fmt::format("Setting kv cache block size to {} for {} backend{}.", setup.block_size,
                                           setup.backend.name,
                                           request.version >= EngineVersion{0, 31, 0} ? "(s)" : ""));
    }
    return;
  }
  if (setup.latent && setup.rules.cpu_mla_block_16) {
    if (setup.user_block && setup.block_size != 16) {
      plan.log_lines.push_back(fmt::format(
          "CPU MLA backend requires block_size=16, overriding user-specified block_size={}.", setup.block_size));
    }
    setup.block_size = 16;
  } else if (setup.block_size % 32 != 0) {
    plan.log_lines.push_back(
        "CPU backend prefers block_size is multiples of 32, otherwise the performance is not optimized.");
  }
}

int64_t DefaultMaxNumSeqs(const PlanRequest& request) {
  if (request.device == DeviceKind::kCpu) {
    return int64_t{128} * request.tensor_parallel * request.pipeline_parallel;
  }
  return request.gpu_memory_bytes >= 70 * kGib ? 1024 : 256;
}

// EngineArgs.get_batch_defaults for the API server.
int64_t DefaultBatchedTokens(const PlanRequest& request) {
  if (request.device == DeviceKind::kCpu) {
    return int64_t{2048} * request.tensor_parallel * request.pipeline_parallel;
  }
  const bool a100 = request.gpu_sm == 80;
  if (request.gpu_memory_bytes >= 160 * kGib) return 16384;
  if (request.gpu_memory_bytes >= 70 * kGib && !a100) return 8192;
  return 2048;
}

// The methods whose batches overlap with the next schedule step (config/vllm.py).
bool AsyncWith(const std::string& method) {
  return method == "mtp" || method == "eagle" || method == "eagle3" || method == "draft_model" ||
         method == "ngram_gpu" || method == "dflash" || method == "dspark";
}

void ResolveInFlight(const PlanRequest& request, VllmSetup& setup, PoolPlan& plan) {
  setup.batched_tokens = request.max_num_batched_tokens.value_or(std::min(
      request.max_num_seqs.value_or(DefaultMaxNumSeqs(request)) * std::max<int64_t>(setup.shape.max_model_len, 1),
      DefaultBatchedTokens(request)));
  if (setup.batched_tokens <= 0) setup.batched_tokens = 1;
  if (request.max_num_batched_tokens && request.max_num_seqs && setup.batched_tokens < *request.max_num_seqs) {
    Refuse(plan, fmt::format("max_num_batched_tokens ({}) must be greater than or equal to max_num_seqs ({}).",
                             setup.batched_tokens, *request.max_num_seqs));
  }
  const int pp = request.pipeline_parallel;
  bool async = request.device == DeviceKind::kGpu;
  if (request.speculative && !AsyncWith(request.speculative->method)) async = false;
  if (request.async_scheduling && request.device == DeviceKind::kGpu) async = *request.async_scheduling;
  setup.batches_in_flight = async ? pp + 1 : pp;
  if (!setup.rules.in_flight_batches) setup.batches_in_flight = 1;
  setup.shape.in_flight_tokens = setup.batches_in_flight * setup.batched_tokens;
  setup.shape.encoder_tokens = setup.batched_tokens;
  if (!setup.windows || !request.max_num_batched_tokens) {
    if (setup.windows && request.device == DeviceKind::kGpu && request.gpu_memory_bytes == 0) {
      plan.warnings.push_back(fmt::format(
          "Windows hold the tokens in flight, and vLLM's default --max-num-batched-tokens depends on the GPU's memory, "
          "which is not known: {} is assumed.",
          Grouped(setup.batched_tokens)));
    }
  }
  if (setup.windows) {
    plan.derivation.push_back({"tokens in flight", "batches in flight * max_num_batched_tokens",
                               fmt::format("{} * {}", setup.batches_in_flight, Grouped(setup.batched_tokens)),
                               fmt::format("{} tokens", Grouped(setup.shape.in_flight_tokens))});
  }
}

// Draft layers that one pass of `method` runs in this model; multi-token prediction repeats one layer otherwise.
void ResolveSpeculation(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup, PoolPlan& plan) {
  if (!request.speculative) return;
  const Speculative& speculative = *request.speculative;
  setup.shape.speculative_tokens = speculative.tokens;
  const int64_t modules = static_cast<int64_t>(model.mtp_layers.size());
  if (speculative.method == "mtp" && std::min<int64_t>(modules, speculative.tokens) > 1) {
    setup.shape.extra_retained = speculative.tokens - 1;
  }
  if (request.decode_context_parallel > 1) {
    plan.warnings.push_back(
        "A drafter that runs without DCP keeps its cache on every rank; the plan shards it as the target's.");
  }
  if (setup.dtype.mode == VllmKvMode::kNvfp4) {
    plan.warnings.push_back(
        "A 4-bit KV cache lowers a drafter's acceptance: measure accepted tokens per pass before you ship NVFP4 with "
        "speculative decoding.");
  }
}

bool SupportsModeAll(const ModelGeometry& model) {
  // SupportsMambaPrefixCaching: Mamba 1 and 2 models and their hybrids; not gated DeltaNet, KDA or short convolutions.
  return std::any_of(model.layers.begin(), model.layers.end(), [](const LayerGeometry& layer) {
    return layer.cache == CacheKind::kStateSpace &&
           (layer.state.kind == StateKind::kMamba1 || layer.state.kind == StateKind::kMamba2);
  });
}

void ResolveStateMode(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup, PoolPlan& plan) {
  const std::string& asked = request.mamba_cache_mode;
  if (asked == "all" && !setup.rules.mamba_mode_all) {
    Refuse(plan, "argument --mamba-cache-mode: invalid choice: 'all' (choose from 'align', 'none')");
  } else if (!setup.states) {
    return;
  } else if (!setup.prefix_caching) {
    if (!asked.empty() && asked != "none") {
      plan.log_lines.push_back("Mamba cache mode is set to 'none' when prefix caching is disabled");
    }
    return;
  }
  std::string mode = asked;
  const bool unset = asked.empty() || asked == "none";
  if (unset) {
    mode = setup.rules.mamba_all_by_default && SupportsModeAll(model) && !request.speculative ? "all" : "align";
    plan.log_lines.push_back(fmt::format(
        "Mamba cache mode is set to '{}' for {} by default when prefix caching is enabled", mode, model.architecture));
  } else if (mode == "all" && !SupportsModeAll(model)) {
    mode = "align";
    plan.log_lines.push_back(
        "Hybrid or mamba-based model detected without support for prefix caching with Mamba cache 'all' mode: falling "
        "back to 'align' mode.");
  }
  setup.shape.state_mode = mode == "all" ? VllmStateMode::kAll : VllmStateMode::kAlign;
}

int WidthOf(const std::string& dtype, int fallback) {
  if (dtype == "float32") return 4;
  if (dtype == "float16" || dtype == "bfloat16") return 2;
  return fallback;
}

// The dtype of the recurrent state by name, "auto" where nothing names one (models/config.py).
std::string StateDtypeName(const ModelGeometry& model, const PlanRequest& request) {
  const std::string& asked = request.mamba_ssm_cache_dtype;
  if (!asked.empty() && asked != "auto") return asked;
  const std::string configured = model.state_dtype_bytes == 4 ? "float32" : "bfloat16";
  if (model.architecture.starts_with("NemotronH")) return model.state_dtype_bytes > 0 ? configured : "float32";
  const bool reads_config = model.architecture.starts_with("Qwen3_5") || model.architecture.starts_with("Qwen4Exp");
  return reads_config && model.state_dtype_bytes > 0 ? configured : "auto";
}

// Whether the CPU build keeps a state in the 16-bit dtype that was named: models whose transformers config has layers
// of linear attention alone; Falcon-H1's layers are all "hybrid", and Kimi-Linear's config lists none.
bool KeepsNamedStateDtype(const ModelGeometry& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [&model](const LayerGeometry& layer) {
    const bool linear = layer.cache == CacheKind::kStateSpace && layer.state.kind != StateKind::kKda &&
                        layer.state.kind != StateKind::kShortConv;
    return linear && std::none_of(model.layers.begin(), model.layers.end(), [&layer](const LayerGeometry& other) {
             return &other != &layer && other.index == layer.index && other.cache != CacheKind::kStateSpace;
           });
  });
}

void ResolveStateDtypes(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup, PoolPlan& plan) {
  if (!setup.states) return;
  setup.conv_bytes = WidthOf(request.mamba_cache_dtype, model.model_dtype_bytes);
  std::string ssm = StateDtypeName(model, request);
  const auto first_state = std::find_if(model.layers.begin(), model.layers.end(), [](const LayerGeometry& layer) {
    return layer.cache == CacheKind::kStateSpace;
  });
  const StateKind kind = first_state->state.kind;
  std::string why = ssm == "auto" ? "as the convolution" : "as configured";
  if (request.device == DeviceKind::kCpu && setup.rules.cpu_states_float32 && ssm != "float32" &&
      (ssm == "auto" || !KeepsNamedStateDtype(model))) {
    ssm = "float32";
    why = "forced by the CPU build on CPUs with AVX512-BF16, which the plan assumes";
  }
  setup.ssm_bytes = WidthOf(ssm, kind == StateKind::kKda ? 4 : setup.conv_bytes);
  if (kind == StateKind::kShortConv) return;
  plan.derivation.push_back({"state dtype", "--mamba-ssm-cache-dtype, else the model's default", why,
                             fmt::format("{} bytes a value", setup.ssm_bytes)});
}

void ResolveLength(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup, PoolPlan& plan) {
  setup.auto_fit = request.max_model_len == -1;
  const bool given = request.max_model_len > 0;
  setup.shape.max_model_len = given ? request.max_model_len : model.max_positions;
  plan.max_model_len = setup.shape.max_model_len;
  // vLLM multiplies by RoPE's factor, a float, except for Gemma 3.
  const bool scaled = model.model_type.find("gemma3") == std::string::npos;
  if (given && model.max_positions > 0 && request.max_model_len > model.max_positions) {
    Refuse(plan, fmt::format("User-specified max_model_len ({}) is greater than the derived max_model_len "
                             "(max_position_embeddings={}{} or model_max_length=None in model's config.json). To allow "
                             "overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
                             request.max_model_len, model.max_positions, scaled ? ".0" : ""));
  }
}

Status CheckParallel(const ModelGeometry& model, const PlanRequest& request, PoolPlan& plan) {
  const int tp = request.tensor_parallel;
  const int dcp = request.decode_context_parallel;
  if (tp < 1 || request.pipeline_parallel < 1 || dcp < 1 || request.data_parallel < 1) {
    return Error(ErrorCode::kInvalidArgument, "--tp, --pp, --dcp and --dp are at least 1");
  }
  if (tp % dcp != 0) {
    Refuse(plan, fmt::format("tp_size={} must be divisible by dcp_size={}.", tp, dcp));
  }
  if (model.query_heads > 0 && model.query_heads % tp != 0) {
    Refuse(plan, fmt::format("Total number of attention heads ({}) must be divisible by tensor parallel size ({}).",
                             model.query_heads, tp));
  }
  return {};
}

void ResolvePrefixCaching(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup, PoolPlan& plan) {
  const bool encoder_decoder = std::any_of(model.layers.begin(), model.layers.end(), [](const LayerGeometry& layer) {
    return layer.cache == CacheKind::kCrossAttention;
  });
  bool by_default = !encoder_decoder;
  if (setup.states) by_default = setup.hybrid && setup.rules.hybrid_prefix_caching;
  setup.prefix_caching = request.prefix_caching.value_or(by_default);
  if (!setup.latent || request.device == DeviceKind::kGpu) return;
  plan.log_lines.push_back(
      "MLA is enabled on a non-GPU platform; forcing chunked prefill and prefix caching to be disabled.");
  // The states' block was set before, and a later check takes it for the user's.
  if (setup.hybrid && setup.prefix_caching) {
    Refuse(plan, "--mamba-block-size can only be set with --enable-prefix-caching");
  }
  setup.prefix_caching = false;
}

void ResolveManager(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup) {
  setup.hybrid_manager = request.hybrid_kv_cache_manager;
  const bool chunked = std::any_of(model.layers.begin(), model.layers.end(), [](const LayerGeometry& layer) {
    return layer.cache == CacheKind::kChunkedAttention;
  });
  // Chunked attention and a drafter of the EAGLE family do not go together under the manager yet.
  const bool eagle = request.speculative && AsyncWith(request.speculative->method) &&
                     request.speculative->method != "draft_model" && request.speculative->method != "ngram_gpu";
  if (chunked && eagle) setup.hybrid_manager = false;
}

}  // namespace

std::string VllmModelDtypeName(const ModelGeometry& model) {
  return model.model_dtype_bytes == 4 ? "float32" : "bfloat16";
}

Result<VllmSetup> ResolveVllmSetup(const ModelGeometry& model, const PlanRequest& request, PoolPlan& plan) {
  VllmSetup setup;
  setup.rules = VllmRulesOf(request.version);
  plan.warnings = setup.rules.warnings;
  setup.shape.decode_context_parallel = request.decode_context_parallel;
  FindLayerKinds(model, setup);
  if (Status status = CheckParallel(model, request, plan); !status) return std::move(status).error();
  ResolveLength(model, request, setup, plan);
  if (setup.shape.max_model_len <= 0) {
    return Error(ErrorCode::kInvalidArgument, "the model says nothing of its longest context; give --max-model-len");
  }
  if (Status status = ResolveDtypes(model, request, setup, plan); !status) return std::move(status).error();
  ResolvePrefixCaching(model, request, setup, plan);
  ResolveManager(model, request, setup);
  ResolveBlockSize(request, setup, plan);
  if (setup.block_size <= 0) return Error(ErrorCode::kInvalidArgument, "--block-size is at least 1");
  ResolveStateMode(model, request, setup, plan);
  ResolveStateDtypes(model, request, setup, plan);
  ResolveInFlight(request, setup, plan);
  ResolveSpeculation(model, request, setup, plan);
  return setup;
}

}  // namespace haypile
