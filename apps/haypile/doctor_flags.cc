#include "doctor_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "command.h"
#include "plan_input.h"
#include "probe/probe.h"

namespace haypile {
namespace {

Result<std::string> EngineOf(const std::string& name) {
  std::string engine = name.empty() ? "vllm" : LowerCase(name);
  if (engine == "llama.cpp" || engine == "llama-server") engine = "llamacpp";
  if (engine == "mistral.rs") engine = "mistralrs";
  if (engine == "tensorrt-llm" || engine == "tensorrt_llm") engine = "trtllm";
  const auto known = LaunchEngines();
  if (std::find(known.begin(), known.end(), engine) != known.end()) return engine;
  return Invalid(fmt::format("--engine: '{}' is not one of {}", name, fmt::join(known, ", ")));
}

Status SetDevice(const DoctorFlags& flags, LaunchInput& input) {
  if (!flags.device.empty() && flags.device != "cpu" && flags.device != "gpu" && flags.device != "cuda") {
    return Invalid("--device: '" + flags.device + "' is not one of gpu, cuda, cpu");
  }
  const bool cpu = flags.device == "cpu" || input.engine == "haypile";
  input.device = cpu ? DeviceKind::kCpu : DeviceKind::kGpu;
  if (cpu && !flags.gpu.empty()) return Invalid("--device cpu (and --engine haypile) and --gpu exclude each other");
  GpuCatalogue catalogue;
  if (!flags.gpu_file.empty()) {
    HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(flags.gpu_file, kLargestTextFile));
    HAYPILE_TRY(catalogue.AddJson(text, flags.gpu_file));
  }
  if (flags.gpu.empty()) return {};
  auto gpu = LaunchGpu(flags.gpu, catalogue);
  if (!gpu.ok()) return std::move(gpu).error().WithContext("--gpu (or a compute capability, such as sm90)");
  input.gpu = std::move(gpu).value();
  return {};
}

Status SetDtype(const DoctorFlags& flags, LaunchInput& input) {
  const bool llamacpp = input.engine == "llamacpp";
  const bool types = !flags.cache_type_k.empty() || !flags.cache_type_v.empty();
  if (types && !llamacpp) return Invalid("-ctk and -ctv are flags of llamacpp, not of " + input.engine);
  if (!flags.flash_attention.empty() && !llamacpp) return Invalid("-fa is a flag of llamacpp, not of " + input.engine);
  if (types && !flags.kv_cache_dtype.empty()) return Invalid("-ctk, -ctv and --kv-cache-dtype exclude each other");
  input.kv_cache_dtype = flags.kv_cache_dtype;
  if (types) {
    const std::string k = flags.cache_type_k.empty() ? "f16" : flags.cache_type_k;
    const std::string v = flags.cache_type_v.empty() ? "f16" : flags.cache_type_v;
    input.kv_cache_dtype = k == v ? k : k + "/" + v;
  }
  if (input.kv_cache_dtype.empty())
    input.kv_cache_dtype = llamacpp ? "f16" : input.engine == "haypile" ? "bf16" : "auto";
  const bool one = input.kv_cache_dtype.find_first_of(", \t") == std::string::npos;
  if (!one) return Invalid("--kv-cache-dtype: '" + input.kv_cache_dtype + "': expected one dtype; a start has one");
  const std::string& fa = flags.flash_attention;
  if (!fa.empty() && fa != "on" && fa != "off" && fa != "auto" && fa != "1" && fa != "0") {
    return Invalid("-fa: '" + fa + "' is not one of on, off, auto, 1, 0");
  }
  input.flash_attention = fa;
  return {};
}

Status SetSpeculation(const DoctorFlags& flags, LaunchInput& input) {
  input.speculative_method = flags.speculative_method;
  input.speculative_tokens = flags.speculative_tokens;
  if (flags.speculative_config.empty()) return {};
  const auto config = ParseJson(flags.speculative_config);
  if (!config.ok() || !config->is_object()) {
    return Invalid(
        "--speculative-config: expected a JSON object such as {\"method\":\"mtp\",\"num_speculative_tokens\":1}");
  }
  if (config->contains("method") && (*config)["method"].is_string()) {
    input.speculative_method = (*config)["method"].get<std::string>();
  } else if (config->contains("model")) {
    input.speculative_method = "draft_model";
  } else {
    return Invalid("--speculative-config: names neither \"method\" nor \"model\"");
  }
  if (config->contains("num_speculative_tokens") && (*config)["num_speculative_tokens"].is_number_integer()) {
    input.speculative_tokens = static_cast<int>((*config)["num_speculative_tokens"].get<int64_t>());
  }
  return {};
}

// Geometry, dtype, scales and biases, as far as the model's files are here.
Status SetModel(const DoctorFlags& flags, CheckpointScales& checkpoint, LaunchInput& input) {
  const std::string name = !flags.model.empty() ? flags.model : flags.checkpoint;
  if (name.empty()) {
    return Invalid("--model: a start needs one: a Hugging Face folder, a config.json, a GGUF file or a known name");
  }
  HAYPILE_TRY_ASSIGN(input.model, LoadGeometry(name));
  if (input.model.name.empty()) input.model.name = name;
  std::error_code ignored;
  const std::string files = !flags.checkpoint.empty() ? flags.checkpoint : name;
  const bool folder = std::filesystem::is_directory(files, ignored);
  if (folder || files.ends_with(".json")) {
    HAYPILE_TRY_ASSIGN(checkpoint, ReadCheckpointScales(files));
    input.checkpoint = &checkpoint;
    input.model_dtype = checkpoint.model_dtype;
  }
  if (folder) {
    HAYPILE_TRY_ASSIGN(input.key_bias, ReadKeyBias(files));
  }
  if (!flags.model_dtype.empty() && flags.model_dtype != "auto") {
    input.model_dtype = flags.model_dtype == "half" ? "float16" : flags.model_dtype;
  }
  return {};
}

void AddLaunchFlags(CLI::App& command, DoctorFlags& flags) {
  const char* group = "Before a start";
  const auto text = [&](const char* names, std::string& target, const char* help) {
    command.add_option(names, target, help)->group(group);
  };
  text("--engine", flags.engine, "vllm (default), sglang, trtllm, llamacpp, haypile, transformers or mistralrs");
  text("--engine-version", flags.engine_version, "e.g. 0.32.0; default: the newest known");
  text("--model", flags.model, "A Hugging Face folder, a config.json, a GGUF file or a known name");
  text("--device", flags.device, "gpu or cpu: which build of the engine");
  text("--gpu", flags.gpu, "A device of the catalogue (H200, L40S, MI300X) or a compute capability (sm90, 8.6)");
  text("--gpu-file", flags.gpu_file, "JSON file of more devices (docs/plan.md)");
  text("--kv-cache-dtype", flags.kv_cache_dtype, "One dtype, in the engine's spelling; with --probe: the server's");
  text("--dtype", flags.model_dtype, "Dtype that the engine runs the model in; default: the checkpoint's");
  text("--attention-backend,--decode-attention-backend", flags.backend, "As the engine spells it");
  text("--speculative-method,--speculative-algorithm", flags.speculative_method,
       "mtp, eagle3, ngram, dflash, ... as the engine spells it");
  text("--speculative-config", flags.speculative_config, "vLLM's own JSON");
  text("--cache-type-k", flags.cache_type_k, "llama.cpp (-ctk): type of K");
  text("--cache-type-v", flags.cache_type_v, "llama.cpp (-ctv): type of V");
  command.add_option("--flash-attn", flags.flash_attention, "llama.cpp (-fa): on, off or auto")
      ->expected(0, 1)
      ->default_str("on")
      ->group(group);
  const auto ranks = [&](const char* names, int& target, const char* help) {
    command.add_option(names, target, help)->check(CLI::Range(1, kMostRanks))->group(group);
  };
  ranks("--tensor-parallel-size,--tp,--tp-size", flags.tensor_parallel, "Tensor parallel ranks");
  ranks("--decode-context-parallel-size,--dcp", flags.context_parallel, "Decode context parallel ranks");
  ranks("--num-speculative-tokens,--speculative-num-draft-tokens", flags.speculative_tokens, "Proposed tokens a pass");
  CLI::Option* on = command.add_flag("--enable-prefix-caching", flags.prefix_caching, "Prefix caching on");
  on->group(group);
  command.add_flag("--no-enable-prefix-caching,--disable-radix-cache", flags.no_prefix_caching, "Prefix caching off")
      ->excludes(on)
      ->group(group);
  command.add_flag("--enforce-eager,--disable-cuda-graph", flags.eager, "No CUDA graphs")->group(group);
  command.add_flag("--calculate-kv-scales", flags.calculate_scales, "vLLM: scales from the first batch (until 0.27)")
      ->group(group);
}

void AddProbeFlags(CLI::App& command, DoctorFlags& flags) {
  const char* group = "A running server";
  command
      .add_option("--probe", flags.probe,
                  "http://HOST:PORT of vLLM or SGLang: does its cache use the scales of --checkpoint?")
      ->group(group);
  command.add_option("--api-key", flags.api_key, "The server's key")->envname("HAYPILE_API_KEY")->group(group);
  command.add_option("--served-model-name", flags.served_model, "The model to ask; default: the only one served")
      ->group(group);
  command
      .add_option("--probe-tokens", flags.probe_tokens,
                  "Tokens of the built-in text to send; default: 1024, or what fits if less")
      ->check(CLI::Range(kLeastProbeTokens, int64_t{1} << 20))
      ->group(group);
  command.add_option("--probe-timeout", flags.probe_timeout, "Seconds to wait for the answer; default: 600")
      ->check(CLI::Range(0.1, 86400.0))
      ->group(group);
  command.add_option("--threads", flags.threads, "Threads of Haypile's own runs; 0: every core")
      ->check(CLI::Range(0, 1024))
      ->group(group);
}

// What a pasted command line may hold and no row asks for.
void AddFlagsOfNoRow(CLI::App& command, DoctorFlags& flags) {
  for (const char* names :
       {"--max-model-len,--max-seq-len,--context-length,-c,--ctx-size", "--max-num-seqs,--max-batch-size,--parallel",
        "--max-running-requests", "--gpu-memory-utilization,--mem-fraction-static,--free-gpu-memory-fraction",
        "--kv-cache-memory-bytes,--max-total-tokens", "--block-size,--page-size,--tokens-per-block", "--quantization",
        "--pipeline-parallel-size,--pp,--pp-size", "--data-parallel-size,--dp,--dp-size",
        "--max-num-batched-tokens,--chunked-prefill-size,--max-num-tokens", "--kv-cache-dtype-skip-layers", "--host",
        "--port"}) {
    command.add_option(names, flags.unused, "Taken and not used: no row asks for it")->expected(1, -1)->group("");
  }
  command
      .add_flag("--trust-remote-code,--enable-expert-parallel,--enable-chunked-prefill,--async-scheduling",
                flags.ignored, "Taken and not used")
      ->group("");
}

}  // namespace

bool DoctorFlags::AsksForLaunch() const {
  const std::string* texts[] = {&engine,
                                &engine_version,
                                &device,
                                &gpu,
                                &gpu_file,
                                &model,
                                &model_dtype,
                                &backend,
                                &speculative_method,
                                &speculative_config,
                                &flash_attention,
                                &cache_type_k,
                                &cache_type_v};
  const bool dtype_of_launch = !kv_cache_dtype.empty() && probe.empty();
  return dtype_of_launch ||
         std::any_of(std::begin(texts), std::end(texts), [](const std::string* text) { return !text->empty(); }) ||
         tensor_parallel != 1 || context_parallel != 1 || speculative_tokens != 0 || prefix_caching ||
         no_prefix_caching || eager || calculate_scales;
}

void AddDoctorFlags(CLI::App& command, DoctorFlags& flags) {
  command.add_option("--log", flags.log, "Log of vLLM, SGLang, TensorRT-LLM or llama.cpp; - is standard input");
  command.add_option("--baseline", flags.baseline, "Log of another start of the same model, to compare with");
  command.add_option("--checkpoint", flags.checkpoint, "Folder or config.json of the model that was served");
  command.add_option("--plan", flags.plan, "What 'haypile plan ... --json' wrote, to compare the log's pool with");
  command.add_option("--planned-tokens", flags.planned_tokens, "Pool tokens that a plan gave");
  command.add_option("--metrics", flags.metrics, "http://HOST:PORT[/metrics], or a file of metrics text");
  command.add_option("--duration", flags.duration, "Seconds to look at --metrics URL; default: 10")
      ->check(CLI::Range(0.0, 86400.0));
  command.add_option("--interval", flags.interval, "Seconds between two looks; default: 2")
      ->check(CLI::Range(0.1, 3600.0));
  AddProbeFlags(command, flags);
  command.add_flag("--checklist", flags.checklist,
                   "The order of checks, with what is known filled in; shown anyway with two or more inputs");
  command.add_flag("-q,--quiet", flags.quiet, "No progress");
  command.add_flag("--json", flags.json, "Print JSON (docs/schemas/haypile.doctor-1.schema.json)");
  AddLaunchFlags(command, flags);
  AddFlagsOfNoRow(command, flags);
}

Result<LaunchInput> MakeLaunchInput(const DoctorFlags& flags, CheckpointScales& checkpoint) {
  LaunchInput input;
  HAYPILE_TRY_ASSIGN(input.engine, EngineOf(flags.engine));
  if (!flags.engine_version.empty()) {
    HAYPILE_TRY_ASSIGN(input.version, ParseEngineVersion(flags.engine_version));
  }
  HAYPILE_TRY(SetDevice(flags, input));
  HAYPILE_TRY(SetDtype(flags, input));
  HAYPILE_TRY(SetSpeculation(flags, input));
  HAYPILE_TRY(SetModel(flags, checkpoint, input));
  input.backend = flags.backend;
  input.tensor_parallel = flags.tensor_parallel;
  input.decode_context_parallel = flags.context_parallel;
  if (flags.prefix_caching || flags.no_prefix_caching) input.prefix_caching = flags.prefix_caching;
  input.eager = flags.eager;
  input.calculate_scales = flags.calculate_scales;
  return input;
}

}  // namespace haypile
