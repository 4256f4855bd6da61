#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "engines/doctor_report.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

const Finding* FirstOf(const Findings& findings, std::initializer_list<std::string_view> ids) {
  for (const std::string_view id : ids) {
    for (const Finding& finding : findings) {
      if (finding.id == id) return &finding;
    }
  }
  return nullptr;
}

// What the user named, or a placeholder.
std::string LogName(const DoctorInput& input) { return input.log_name.empty() ? "start.log" : input.log_name; }
std::string FolderName(const DoctorInput& input) {
  return input.checkpoint != nullptr && !input.checkpoint->folder.empty() ? input.checkpoint->folder : "CHECKPOINT";
}
std::string MetricsName(const DoctorInput& input) {
  return IsMetricsUrl(input.metrics_name) ? input.metrics_name : "http://HOST:PORT/metrics";
}
std::string ServerName(const DoctorInput& input) {
  return input.server_url.empty() ? "http://HOST:PORT" : input.server_url;
}
LogEngine EngineOf(const DoctorInput& input) {
  if (input.log != nullptr) return input.log->engine;
  if (input.metrics != nullptr) {
    for (const LogEngine engine : {LogEngine::kVllm, LogEngine::kSglang, LogEngine::kTrtllm, LogEngine::kLlamacpp}) {
      if (LogEngineName(engine) == input.metrics->last.engine) return engine;
    }
  }
  return LogEngine::kUnknown;
}
std::string DtypeOf(const DoctorInput& input) {
  if (input.log != nullptr) return CacheDtype(*input.log);
  return input.metrics != nullptr ? input.metrics->last.cache_dtype : "";
}

CheckStep PoolStep(const DoctorInput& input, const Findings& findings) {
  CheckStep step{"pool", "Is the pool the limit?", CheckState::kOpen, "", {}};
  const Finding* metrics =
      FirstOf(findings, {"pool.is_limit", "pool.was_limit", "pool.has_room", "pool.not_limit_but_waiting"});
  const Finding* load = FirstOf(findings, {"load.pool_is_limit", "load.room"});
  const Finding* found = metrics != nullptr ? metrics : load;
  const std::string look =
      "haypile doctor --metrics " + MetricsName(input) + " --duration 60   # under your usual load";
  if (found == nullptr) {
    const bool idle = FirstOf(findings, {"pool.idle"}) != nullptr;
    step.answer = idle ? "Not known: the server was idle when it was looked at."
                       : "Not known: neither metrics nor a log under load say it.";
    step.next = {look};
    return step;
  }
  const bool limit = found->id == "pool.is_limit" || found->id == "load.pool_is_limit";
  step.answer = found->what;
  if (found->id == "pool.was_limit") {
    step.next = {look};
    return step;
  }
  step.state = CheckState::kDone;
  if (!limit)
    step.next = {ModelDtypeFlag(EngineOf(input)) + "   # keep the model's dtype: the steps below are not needed"};
  return step;
}

CheckStep ScaleStep(const DoctorInput& input) {
  CheckStep step{"scales", "Are there KV scales in the checkpoint?", CheckState::kOpen, "", {}};
  const std::string dtype = DtypeOf(input);
  const LogEngine engine = EngineOf(input);
  if (!dtype.empty() && IsQuantizedDtype(dtype).value_or(false) && !NeedsCheckpointScales(engine, dtype)) {
    step.state = CheckState::kDone;
    step.answer = "Not needed: a " + dtype + " cache uses none of a checkpoint.";
    return step;
  }
  const CheckpointScales* checkpoint = input.checkpoint;
  if (checkpoint == nullptr || !checkpoint->files_read) {
    step.answer = "Not known: no checkpoint's weights were given.";
    step.next = {"haypile inspect " + FolderName(input)};
    return step;
  }
  if (checkpoint->tensors == 0) {
    step.state = CheckState::kTrouble;
    step.answer = std::string("No: the checkpoint holds none; a cache that needs them runs at 1.0.") +
                  (checkpoint->weight_scales ? " Its weight scales do not imply KV scales." : "");
    step.next = {"haypile calibrate " + FolderName(input) + " --modelopt " + FolderName(input) + "-kv"};
    return step;
  }
  const int layers = static_cast<int>(checkpoint->layers_with_scales.size());
  const bool all = checkpoint->kv_layers == 0 || layers >= checkpoint->kv_layers;
  step.state = all ? CheckState::kDone : CheckState::kTrouble;
  step.answer = fmt::format("{}: {} scales in {} of {} layers, such as {}.", all ? "Yes" : "Not for all layers",
                            checkpoint->tensors, layers, checkpoint->kv_layers, checkpoint->example);
  step.next = {"haypile inspect " + FolderName(input) + "   # their values, and what each engine does with the names"};
  return step;
}

// Findings that answer the question of the backend and the scales.
bool AboutBackend(const Finding& finding) {
  for (const std::string_view family : {"backend.", "scales.", "dtype.", "error.", "probe."}) {
    if (finding.id.starts_with(family)) return true;
  }
  return false;
}

CheckStep BackendStep(const DoctorInput& input, const Findings& findings) {
  CheckStep step{"backend", "Do the log's backend and scale lines say what was meant?", CheckState::kOpen, "", {}};
  const Finding *trouble = nullptr, *open = nullptr, *probed = nullptr;
  for (const Finding& finding : findings) {
    if (!AboutBackend(finding)) continue;
    if (finding.severity >= Severity::kWarning && trouble == nullptr) trouble = &finding;
    if (finding.severity == Severity::kUnknown && open == nullptr) open = &finding;
    if (finding.severity <= Severity::kNote && finding.id.starts_with("probe.")) probed = &finding;
  }
  if (trouble != nullptr && (input.log != nullptr || trouble->id.starts_with("probe."))) {
    step.state = CheckState::kTrouble;
    step.answer = trouble->what;
    step.next = trouble->type;
    return step;
  }
  if (probed != nullptr) {
    step.state = CheckState::kDone;
    step.answer = probed->what;
    return step;
  }
  if (input.log == nullptr) {
    step.answer = "Not known: no start-up log was given.";
    if (input.launch != nullptr && !input.launch->backend.empty()) {
      step.answer += " Expected before the start: " + input.launch->backend + ".";
    }
    step.next = {"haypile doctor --log start.log --checkpoint " + FolderName(input)};
    return step;
  }
  if (open != nullptr) {
    step.answer = open->what;
    if (input.checkpoint == nullptr) {
      step.next = {"haypile doctor --log " + LogName(input) + " --checkpoint " + FolderName(input)};
    } else {
      step.next = {"haypile doctor --probe " + ServerName(input) + " --checkpoint " + FolderName(input) +
                   "   # what the log cannot tell, the running server's answers can"};
    }
    return step;
  }
  step.state = CheckState::kDone;
  const Finding* backend = FirstOf(findings, {"backend.used", "backend.not_said", "dtype.used"});
  step.answer = backend != nullptr ? backend->what : "No line of the log speaks against it.";
  return step;
}

// The format's name as `haypile compare` has it.
std::string CompareFormat(const std::string& dtype) {
  const std::string name = LowerCase(dtype);
  if (Contains(name, "e5m2")) return "fp8_e5m2";
  if (Contains(name, "nvfp4") || Contains(name, "float4")) return "nvfp4";
  if (Contains(name, "fp4_mx") || Contains(name, "mxfp4")) return "mxfp4";
  if (Contains(name, "int8")) return "int8_per_token_head";
  for (const char* ggml : {"q8_0", "q4_0"}) {
    if (Contains(name, ggml)) return ggml;
  }
  return "fp8";
}

CheckStep AccuracyStep(const DoctorInput& input) {
  const std::string dtype = DtypeOf(input);
  CheckStep step{"accuracy",
                 "Does an accuracy run at both dtypes say that nothing is lost?",
                 CheckState::kOpen,
                 "Not known: a log and metrics say nothing of answers.",
                 {}};
  step.next = {"haypile compare " + FolderName(input) + " --kv-cache-dtype bf16," + CompareFormat(dtype)};
  return step;
}

std::string BenchCommand(const DoctorInput& input, LogEngine engine) {
  const std::string url = MetricsName(input);
  const std::string host = url.substr(0, url.find('/', 7));
  switch (engine) {
    case LogEngine::kLlamacpp:
      return "llama-bench -m MODEL -fa 1 -d 8192 -ctk f16,q8_0 -ctv f16,q8_0";
    case LogEngine::kSglang:
      return "python3 -m sglang.bench_serving --backend sglang --base-url " + host +
             "   # at each dtype, the same seed";
    case LogEngine::kTrtllm:
    case LogEngine::kVllm:
    case LogEngine::kUnknown:
      break;
  }
  return "vllm bench serve --base-url " + host + " --model MODEL   # at each dtype, the same prompts and rate";
}

CheckStep SpeedStep(const DoctorInput& input) {
  CheckStep step{"speed",
                 "Is it faster at the same clock?",
                 CheckState::kOpen,
                 "Not known: one server was looked at, at one dtype.",
                 {}};
  if (input.metrics != nullptr && input.metrics->growth.time_per_token) {
    step.answer = fmt::format("One side is known: {:.4f} s a token on average at {}; the other dtype was not measured.",
                              input.metrics->growth.time_per_token->mean_s,
                              DtypeOf(input).empty() ? "this dtype" : DtypeOf(input));
  }
  const bool cpu = input.log != nullptr && (input.log->on_cpu || input.log->engine == LogEngine::kLlamacpp);
  if (!cpu)
    step.next.push_back("nvidia-smi --lock-gpu-clocks=MHZ   # the same for both; --reset-gpu-clocks afterwards");
  step.next.push_back(BenchCommand(input, EngineOf(input)));
  return step;
}

}  // namespace

std::string CheckStateName(CheckState state) {
  switch (state) {
    case CheckState::kDone:
      return "done";
    case CheckState::kTrouble:
      return "trouble";
    case CheckState::kOpen:
      break;
  }
  return "open";
}

std::vector<CheckStep> Checklist(const DoctorInput& input, const Findings& findings) {
  return {PoolStep(input, findings), ScaleStep(input), BackendStep(input, findings), AccuracyStep(input),
          SpeedStep(input)};
}

}  // namespace haypile
