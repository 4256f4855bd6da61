// PlanFlags -> PlanJob.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "command.h"
#include "plan_flags.h"
#include "plan_input.h"
#include "planner/byte_size.h"
#include "version.h"

namespace haypile {
namespace {

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (true) {
    const size_t comma = text.find(',', start);
    parts.push_back(text.substr(start, comma - start));
    if (comma == std::string::npos) return parts;
    start = comma + 1;
  }
}

Status SetCount(const std::string& text, const char* flag, std::optional<int64_t>* target) {
  if (text.empty()) return {};
  HAYPILE_TRY_ASSIGN(*target, ParseCount(text, flag));
  return {};
}

template <typename Choices>
Status CheckChoice(const std::string& value, const char* flag, const Choices& choices) {
  std::string known;
  for (const char* choice : choices) {
    if (value == choice) return {};
    known += (known.empty() ? "" : ", ") + std::string(choice);
  }
  return Invalid(fmt::format("{}: '{}' is not one of {}", flag, value, known));
}

constexpr const char* kStateDtypes[] = {"", "auto", "float16", "bfloat16", "float32"};
constexpr const char* kCacheModes[] = {"", "none", "align", "all"};
constexpr const char* kFlashAttention[] = {"", "on", "off", "auto", "1", "0"};

// Flags that only one engine has, and whether they were given: nobody should believe that one was honoured where it
// was not.
Status CheckFlagsOfOthers(const PlanFlags& flags, EngineKind engine) {
  struct Owned {
    const char* flag;
    EngineKind engine;
    bool given;
  };
  const Owned owned[] = {
      {"-c", EngineKind::kLlamacpp, !flags.context_size.empty()},
      {"-np", EngineKind::kLlamacpp, flags.slots.has_value()},
      {"-b", EngineKind::kLlamacpp, !flags.batch.empty()},
      {"-ub", EngineKind::kLlamacpp, !flags.ubatch.empty()},
      {"-ctk", EngineKind::kLlamacpp, !flags.cache_type_k.empty()},
      {"-ctv", EngineKind::kLlamacpp, !flags.cache_type_v.empty()},
      {"-fa", EngineKind::kLlamacpp, !flags.flash_attention.empty()},
      {"--kv-unified", EngineKind::kLlamacpp, flags.kv_unified},
      {"--swa-full", EngineKind::kLlamacpp, flags.swa_full},
      {"--swa-full-tokens-ratio", EngineKind::kSglang, flags.swa_ratio.has_value()},
      {"--mamba-full-memory-ratio", EngineKind::kSglang, flags.mamba_ratio.has_value()},
      {"--max-mamba-cache-size", EngineKind::kSglang, !flags.mamba_cache_size.empty()},
      {"--max-running-requests", EngineKind::kSglang, !flags.max_running_requests.empty()},
      {"--mem-fraction-static", EngineKind::kSglang, flags.mem_fraction_static.has_value()},
      {"--speculative-algorithm", EngineKind::kSglang, !flags.speculative_algorithm.empty()},
      {"--free_gpu_memory_fraction", EngineKind::kTrtllm, flags.free_memory_fraction.has_value()},
      {"--gpu-memory-utilization", EngineKind::kVllm, flags.vllm_utilization.has_value()},
      {"--mamba-cache-mode", EngineKind::kVllm, !flags.mamba_cache_mode.empty()},
      {"--mamba-cache-dtype", EngineKind::kVllm, !flags.mamba_cache_dtype.empty()},
      {"--num-gpu-blocks-override", EngineKind::kVllm, !flags.blocks_override.empty()},
      {"--disable-hybrid-kv-cache-manager", EngineKind::kVllm, flags.no_hybrid_manager},
      {"--speculative-config", EngineKind::kVllm, !flags.speculative_config.empty()},
  };
  for (const Owned& flag : owned) {
    if (flag.given && flag.engine != engine) {
      return Invalid(
          fmt::format("{} is a flag of {}, not of {}", flag.flag, EngineName(flag.engine), EngineName(engine)));
    }
  }
  return {};
}

Status SetDevice(const PlanFlags& flags, PlanJob* job) {
  GpuCatalogue catalogue;
  if (!flags.gpu_file.empty()) {
    HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(flags.gpu_file, kLargestTextFile));
    HAYPILE_TRY(catalogue.AddJson(text, flags.gpu_file));
  }
  if (!flags.gpu.empty()) {
    HAYPILE_TRY_ASSIGN(job->gpu, catalogue.Find(flags.gpu));
  }
  if (!flags.gpu_memory.empty()) {
    if (!job->gpu) return Invalid("--gpu-memory needs --gpu");
    HAYPILE_TRY_ASSIGN(job->gpu->memory_bytes, ParseCount(flags.gpu_memory, "--gpu-memory"));
    job->gpu->visible_bytes = 0;
  }
  const std::string device = flags.device.empty() ? "gpu" : flags.device;
  HAYPILE_TRY(CheckChoice(device, "--device", std::initializer_list<const char*>{"gpu", "cuda", "cpu"}));
  job->request.device = device == "cpu" ? DeviceKind::kCpu : DeviceKind::kGpu;
  if (job->gpu && device == "cpu") return Invalid("--device cpu and --gpu exclude each other");
  if (job->gpu && job->request.engine == EngineKind::kHaypile) {
    return Error(ErrorCode::kUnsupported, "haypile runs on the CPU; give --kv-cache-memory-bytes in place of --gpu");
  }
  if (!job->gpu && flags.gpu_count) return Invalid("--gpu-count needs --gpu");
  return {};
}

// Ranks: --tp, --pp and --dp as given; devices that no flag names are tensor parallel.
Status SetParallel(const PlanFlags& flags, PlanJob* job) {
  PlanRequest& request = job->request;
  request.pipeline_parallel = flags.pipeline_parallel.value_or(1);
  request.data_parallel = flags.data_parallel.value_or(1);
  request.decode_context_parallel = flags.decode_context_parallel.value_or(1);
  const int64_t others = int64_t{request.pipeline_parallel} * request.data_parallel;
  if (flags.tensor_parallel) {
    request.tensor_parallel = *flags.tensor_parallel;
  } else if (flags.gpu_count) {
    if (*flags.gpu_count % others != 0) {
      return Invalid(fmt::format("--gpu-count {} is no multiple of --pp x --dp = {}", *flags.gpu_count, others));
    }
    request.tensor_parallel = static_cast<int>(*flags.gpu_count / others);
  }
  const int64_t needed = others * request.tensor_parallel;
  if (flags.gpu_count && needed > *flags.gpu_count) {
    return Invalid(fmt::format("--tp x --pp x --dp = {} needs more than --gpu-count {}", needed, *flags.gpu_count));
  }
  job->gpu_count = flags.gpu_count.value_or(static_cast<int>(std::min<int64_t>(needed, INT32_MAX)));
  return {};
}

Status SetMemory(const PlanFlags& flags, PlanJob* job) {
  if (!flags.pool_bytes.empty()) {
    for (const std::string& part : SplitAtCommas(flags.pool_bytes)) {
      HAYPILE_TRY_ASSIGN(const int64_t bytes, ParseCount(part, "--kv-cache-memory-bytes"));
      job->request.pool_bytes_per_rank.push_back(bytes);
    }
  }
  for (const auto& share : {flags.vllm_utilization, flags.mem_fraction_static, flags.free_memory_fraction}) {
    if (share) job->utilization = share;
  }
  if (job->utilization && (!(*job->utilization > 0.0) || *job->utilization > 1.0)) {
    return Invalid(fmt::format("{}: {} is not a share of the device; expected more than 0 and at most 1",
                               flags.vllm_utilization      ? "--gpu-memory-utilization"
                               : flags.mem_fraction_static ? "--mem-fraction-static"
                                                           : "--free_gpu_memory_fraction",
                               *job->utilization));
  }
  job->weights_dtype = flags.weights_dtype;
  job->enforce_eager = flags.enforce_eager;
  HAYPILE_TRY(SetCount(flags.weights_bytes, "--weights-bytes", &job->weights_bytes));
  if (flags.overhead == "0") {
    job->overhead_bytes = 0;
    return {};
  }
  return SetCount(flags.overhead, "--overhead", &job->overhead_bytes);
}

Status SetPool(const PlanFlags& flags, PlanJob* job) {
  PlanRequest& request = job->request;
  if (flags.max_model_len == "auto" || flags.max_model_len == "-1") {
    request.max_model_len = -1;
  } else if (!flags.max_model_len.empty()) {
    HAYPILE_TRY_ASSIGN(request.max_model_len, ParseCount(flags.max_model_len, "--max-model-len"));
  }
  HAYPILE_TRY(SetCount(flags.block_size, "--block-size", &request.block_size));
  HAYPILE_TRY(SetCount(flags.batched_tokens, "--max-num-batched-tokens", &request.max_num_batched_tokens));
  HAYPILE_TRY(SetCount(flags.max_num_seqs, "--max-num-seqs", &request.max_num_seqs));
  HAYPILE_TRY(SetCount(flags.blocks_override, "--num-gpu-blocks-override", &request.num_gpu_blocks_override));
  if (flags.prefix_caching) request.prefix_caching = true;
  if (flags.no_prefix_caching) request.prefix_caching = false;
  if (flags.async_scheduling) request.async_scheduling = true;
  if (flags.no_async_scheduling) request.async_scheduling = false;
  request.hybrid_kv_cache_manager = !flags.no_hybrid_manager;
  HAYPILE_TRY(CheckChoice(flags.mamba_cache_mode, "--mamba-cache-mode", kCacheModes));
  HAYPILE_TRY(CheckChoice(flags.mamba_cache_dtype, "--mamba-cache-dtype", kStateDtypes));
  HAYPILE_TRY(CheckChoice(flags.mamba_ssm_cache_dtype, "--mamba-ssm-cache-dtype", kStateDtypes));
  HAYPILE_TRY(
      CheckChoice(flags.model_dtype, "--dtype",
                  std::initializer_list<const char*>{"", "auto", "half", "float16", "bfloat16", "float", "float32"}));
  request.mamba_cache_mode = flags.mamba_cache_mode;
  request.mamba_cache_dtype = flags.mamba_cache_dtype;
  request.mamba_ssm_cache_dtype = flags.mamba_ssm_cache_dtype;
  request.skip_layers = flags.skip_layers;
  if (flags.model_dtype == "float" || flags.model_dtype == "float32") job->model.model_dtype_bytes = 4;
  if (flags.model_dtype == "half" || flags.model_dtype == "float16" || flags.model_dtype == "bfloat16") {
    job->model.model_dtype_bytes = 2;
  }
  return {};
}

Status SetEngineFlags(const PlanFlags& flags, PlanJob* job) {
  PlanRequest& request = job->request;
  request.swa_full_tokens_ratio = flags.swa_ratio.value_or(request.swa_full_tokens_ratio);
  request.mamba_full_memory_ratio = flags.mamba_ratio.value_or(request.mamba_full_memory_ratio);
  HAYPILE_TRY(SetCount(flags.mamba_cache_size, "--max-mamba-cache-size", &request.max_mamba_cache_size));
  HAYPILE_TRY(SetCount(flags.max_running_requests, "--max-running-requests", &request.max_running_requests));
  HAYPILE_TRY(SetCount(flags.max_total_tokens, "--max-total-tokens", &request.max_total_tokens));
  if (flags.context_size != "0") HAYPILE_TRY(SetCount(flags.context_size, "-c", &request.context_size));
  HAYPILE_TRY(SetCount(flags.batch, "-b", &request.batch));
  HAYPILE_TRY(SetCount(flags.ubatch, "-ub", &request.ubatch));
  HAYPILE_TRY(CheckChoice(flags.flash_attention, "-fa", kFlashAttention));
  request.parallel_slots = std::max(0, flags.slots.value_or(0));
  request.flash_attention = flags.flash_attention == "1"   ? "on"
                            : flags.flash_attention == "0" ? "off"
                                                           : flags.flash_attention;
  request.kv_unified = flags.kv_unified;
  request.swa_full = flags.swa_full;
  return {};
}

Status SetDtypes(const PlanFlags& flags, PlanJob* job) {
  if (!flags.cache_type_k.empty() || !flags.cache_type_v.empty()) {
    if (flags.kv_cache_dtype) return Invalid("--kv-cache-dtype excludes -ctk and -ctv");
    const std::string keys = flags.cache_type_k.empty() ? "f16" : flags.cache_type_k;
    const std::string values = flags.cache_type_v.empty() ? "f16" : flags.cache_type_v;
    job->dtypes = {keys == values ? keys : keys + "/" + values};
    return {};
  }
  if (!flags.kv_cache_dtype) return {};
  for (const std::string& dtype : SplitAtCommas(*flags.kv_cache_dtype)) {
    if (dtype.empty()) return Invalid("--kv-cache-dtype: '" + *flags.kv_cache_dtype + "' has an empty entry");
    if (std::find(job->dtypes.begin(), job->dtypes.end(), dtype) != job->dtypes.end()) {
      return Invalid("--kv-cache-dtype: '" + dtype + "' stands there twice");
    }
    job->dtypes.push_back(dtype);
  }
  return {};
}

struct SpeculativeText {
  std::string method, draft, tokens, draft_kv_dtype;
};

// METHOD, METHOD:N, METHOD:DRAFT:N; a draft may hold colons.
Result<SpeculativeText> SplitSpeculative(const std::string& text) {
  const size_t first = text.find(':');
  const size_t last = text.rfind(':');
  SpeculativeText parts;
  parts.method = text.substr(0, first);
  if (first == std::string::npos || parts.method.empty() || last + 1 == text.size()) {
    return Invalid("--speculative: '" + text + "' is not METHOD:DRAFT:N, e.g. eagle3:drafts/eagle:3 or mtp::1");
  }
  parts.tokens = text.substr(last + 1);
  if (last > first) parts.draft = text.substr(first + 1, last - first - 1);
  return parts;
}

Result<SpeculativeText> SpeculativeFromJson(const std::string& text) {
  auto json = ParseJson(text);
  if (!json.ok() || !json->is_object())
    return Invalid("--speculative-config: expected a JSON object, found '" + text + "'");
  SpeculativeText parts;
  const auto read = [&](const char* field, std::string* target) -> Status {
    if (!json->contains(field)) return {};
    const Json& value = (*json)[field];
    if (!value.is_string()) return Invalid(fmt::format("--speculative-config: {}: expected a text", field));
    *target = value.get<std::string>();
    return {};
  };
  HAYPILE_TRY(read("method", &parts.method));
  HAYPILE_TRY(read("model", &parts.draft));
  HAYPILE_TRY(read("kv_cache_dtype", &parts.draft_kv_dtype));
  if (!json->contains("num_speculative_tokens") || !(*json)["num_speculative_tokens"].is_number_integer()) {
    return Invalid("--speculative-config: num_speculative_tokens: expected a whole number");
  }
  parts.tokens = DumpJson((*json)["num_speculative_tokens"], -1);
  if (parts.method.empty()) parts.method = "draft_model";
  return parts;
}

Result<std::optional<SpeculativeText>> SpeculativeOf(const PlanFlags& flags) {
  const int given =
      !flags.speculative.empty() + !flags.speculative_config.empty() + !flags.speculative_algorithm.empty();
  if (given == 0) return std::optional<SpeculativeText>();
  if (given > 1) return Invalid("give one of --speculative, --speculative-config and --speculative-algorithm");
  if (!flags.speculative.empty()) {
    HAYPILE_TRY_ASSIGN(SpeculativeText text, SplitSpeculative(flags.speculative));
    return std::optional<SpeculativeText>(std::move(text));
  }
  if (!flags.speculative_config.empty()) {
    HAYPILE_TRY_ASSIGN(SpeculativeText text, SpeculativeFromJson(flags.speculative_config));
    return std::optional<SpeculativeText>(std::move(text));
  }
  std::string method = flags.speculative_algorithm;
  std::transform(method.begin(), method.end(), method.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return std::optional<SpeculativeText>(
      SpeculativeText{method, flags.speculative_draft_model,
                      flags.speculative_draft_tokens.empty() ? "4" : flags.speculative_draft_tokens, ""});
}

Status SetSpeculative(const PlanFlags& flags, PlanJob* job) {
  HAYPILE_TRY_ASSIGN(const auto text, SpeculativeOf(flags));
  job->accepted_tokens = flags.acceptance_length;
  if (!text) {
    if (!flags.draft_kv_dtype.empty()) return Invalid("--speculative-draft-kv-cache-dtype needs --speculative");
    return {};
  }
  Speculative speculative;
  speculative.method = text->method;
  speculative.draft_name = text->draft;
  HAYPILE_TRY_ASSIGN(const int64_t tokens, ParseCount(text->tokens, "--speculative"));
  if (tokens > 1024) return Invalid("--speculative: " + text->tokens + " proposed tokens are more than 1,024");
  speculative.tokens = static_cast<int>(tokens);
  speculative.draft_kv_dtype = flags.draft_kv_dtype.empty() ? text->draft_kv_dtype : flags.draft_kv_dtype;
  if (!text->draft.empty()) {
    auto draft = LoadGeometry(text->draft);
    if (!draft.ok()) return std::move(draft).error().WithContext("--speculative");
    speculative.draft = std::make_shared<const ModelGeometry>(std::move(draft).value());
  }
  job->request.speculative = std::move(speculative);
  return {};
}

Status SetLoad(const PlanFlags& flags, PlanJob* job) {
  if (!flags.sequence_length.empty()) {
    HAYPILE_TRY_ASSIGN(const int64_t tokens, ParseCount(flags.sequence_length, "--sequence-length"));
    job->lengths = LengthDistribution::Constant(tokens);
  }
  if (!flags.length_distribution.empty()) {
    HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(flags.length_distribution, kLargestTextFile));
    HAYPILE_TRY_ASSIGN(job->lengths, LengthDistribution::Parse(text, flags.length_distribution));
  }
  job->target_requests = flags.requests;
  job->load_requests = flags.load;
  return {};
}

// A bare --solve asks for all that the other flags allow. It may have swallowed the MODEL that stands behind it.
void SetQuestions(const PlanFlags& flags, bool solve_given, PlanJob* job) {
  for (const std::string& question : flags.solve) {
    if (!question.empty()) job->questions.push_back(question);
  }
  if (!solve_given || !job->questions.empty()) return;
  if (job->gpu && job->request.pool_bytes_per_rank.empty()) job->questions.push_back("gpus");
  if (job->request.engine != EngineKind::kLlamacpp) job->questions.push_back("context");
  job->questions.push_back("requests");
  if (job->load_requests) job->questions.push_back("replicas");
}

}  // namespace

Result<PlanJob> MakeJob(const PlanFlags& flags) {
  if (flags.model.empty()) return Invalid("MODEL is required; see haypile plan --help");
  PlanJob job;
  job.tool_version = kVersion;
  HAYPILE_TRY_ASSIGN(job.request.engine, ParseEngine(flags.engine));
  job.request.version = NewestKnownVersion(job.request.engine);
  if (!flags.engine_version.empty()) {
    HAYPILE_TRY_ASSIGN(job.request.version, ParseEngineVersion(flags.engine_version));
  }
  HAYPILE_TRY(CheckFlagsOfOthers(flags, job.request.engine));
  HAYPILE_TRY(SetDevice(flags, &job));
  HAYPILE_TRY(SetParallel(flags, &job));
  HAYPILE_TRY(SetMemory(flags, &job));
  HAYPILE_TRY(SetDtypes(flags, &job));
  HAYPILE_TRY_ASSIGN(job.model, LoadGeometry(flags.model));
  HAYPILE_TRY(SetPool(flags, &job));
  HAYPILE_TRY(SetEngineFlags(flags, &job));
  HAYPILE_TRY(SetSpeculative(flags, &job));
  HAYPILE_TRY(SetLoad(flags, &job));
  SetQuestions(flags, flags.solve_given, &job);
  return job;
}

}  // namespace haypile
