#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/interrupt.h"
#include "base/json.h"
#include "base/progress.h"
#include "command.h"
#include "doctor_flags.h"
#include "doctor_text.h"
#include "engines/doctor_report.h"
#include "engines/start_log.h"
#include "modelstore/model_store.h"
#include "probe/probe_report.h"
#include "version.h"

namespace haypile {
namespace {

constexpr double kDefaultSeconds = 10.0, kDefaultInterval = 2.0, kDefaultProbeSeconds = 600.0;

// What was read from the inputs; a DoctorInput points into it.
struct Inputs {
  std::optional<LogRecord> log, baseline;
  std::optional<CheckpointScales> checkpoint;
  std::optional<PlanFile> plan;
  std::optional<MetricsWindow> metrics;
  std::optional<LaunchInput> launch;
  CheckpointScales launch_checkpoint;
  LaunchPrediction prediction;
  std::optional<ProbeResult> probe;

  int Count() const {
    return log.has_value() + (checkpoint.has_value() && !probe) + plan.has_value() + metrics.has_value() +
           launch.has_value() + probe.has_value();
  }
};

Status CheckProbeFlags(const DoctorFlags& flags) {
  // The key may be in the environment, for other runs.
  const bool others =
      !flags.served_model.empty() || flags.probe_tokens != 0 || flags.probe_timeout || flags.threads != 0;
  if (flags.probe.empty() && !others) return {};
  if (flags.probe.empty()) {
    return Invalid("--served-model-name, --probe-tokens, --probe-timeout and --threads go with --probe URL");
  }
  if (flags.checkpoint.empty()) {
    return Invalid("--probe: needs --checkpoint FOLDER, the folder that the server was started with, to compare with");
  }
  if (flags.checkpoint.ends_with(".json")) {
    return Invalid("--checkpoint: a probe runs the model, so it needs the folder with its weights, not a config.json");
  }
  if (!flags.probe.starts_with("http://")) {
    return Invalid("--probe: '" + flags.probe + "': expected http://HOST:PORT; only plain HTTP is spoken");
  }
  return {};
}

Status CheckFlags(const DoctorFlags& flags) {
  const bool launch = flags.AsksForLaunch();
  if (flags.log.empty() && flags.metrics.empty() && flags.probe.empty() && !launch && !flags.checklist) {
    return Invalid(
        "give --log FILE and --metrics URL, one of them or both, or --model MODEL for what a start will do, or "
        "--probe URL --checkpoint FOLDER for what a running server does, or --checklist");
  }
  HAYPILE_TRY(CheckProbeFlags(flags));
  if (flags.planned_tokens < 0) return Invalid("--planned-tokens: expected a positive number");
  if (flags.log == "-" && flags.baseline == "-") return Invalid("--log and --baseline cannot both be standard input");
  if (flags.log.empty() && (!flags.baseline.empty() || flags.planned_tokens != 0 || !flags.plan.empty())) {
    return Invalid("--baseline, --plan and --planned-tokens go with --log");
  }
  if (!flags.metrics.empty() && !IsMetricsUrl(flags.metrics) && (flags.duration || flags.interval)) {
    return Invalid("--duration and --interval go with --metrics http://...: a file is looked at once");
  }
  if (flags.metrics.empty() && (flags.duration || flags.interval)) {
    return Invalid("--duration and --interval go with --metrics URL");
  }
  return {};
}

void PrintProgress(int look, const MetricsWindow& window) {
  if (window.ended_in_failure) {
    fmt::print(stderr, "look {}: {}\n", look, window.last_failure);
    return;
  }
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{:.0f}", *value) : "?"; };
  const std::string usage = window.last.usage ? fmt::format("{:.1f}%", 100 * *window.last.usage) : "?";
  fmt::print(stderr, "look {}, {:.0f} s: cache usage {}, running {}, waiting {}, preemptions {}\n", look,
             window.seconds, usage, number(window.last.running), number(window.last.waiting),
             number(window.last.preemptions));
}

Result<ProbeResult> Probe(const DoctorFlags& flags, const Inputs& inputs) {
  ProbeRequest request;
  request.server = {flags.probe, flags.api_key, flags.served_model, flags.probe_timeout.value_or(kDefaultProbeSeconds),
                    Interrupted};
  HAYPILE_TRY_ASSIGN(request.checkpoint, ResolveModel(flags.checkpoint));
  request.dtype.flag = flags.kv_cache_dtype;
  if (inputs.log) request.dtype.log = CacheDtype(*inputs.log);
  if (inputs.checkpoint && inputs.checkpoint->geometry_known) {
    request.dtype.checkpoint = inputs.checkpoint->geometry.checkpoint_kv_dtype;
  }
  request.tokens = flags.probe_tokens;
  request.threads = flags.threads;
  std::unique_ptr<Progress> progress;
  double counted = 0;
  return RunProbe(request, [&](double done, double total, const std::string& what) {
    if (progress == nullptr || total != counted)
      progress = std::make_unique<Progress>("probe", total, "tok", flags.quiet);
    counted = total;
    progress->Update(done, what);
  });
}

Result<MetricsWindow> Watch(const DoctorFlags& flags) {
  WatchPlan plan;
  plan.duration_s = flags.duration.value_or(kDefaultSeconds);
  plan.interval_s = flags.interval.value_or(kDefaultInterval);
  if (IsMetricsUrl(flags.metrics)) {
    InstallInterruptHandler();
    plan.stop = Interrupted;
    if (!flags.quiet) plan.progress = PrintProgress;
  }
  auto window = WatchMetrics(flags.metrics, plan);
  if (!window.ok() && window.error().code() == ErrorCode::kMalformed) {
    return std::move(window).error().WithContext("reading '" + flags.metrics + "'");
  }
  return window;
}

// A start of the same engine, version and dtype as the log's, where flags do not say otherwise.
DoctorFlags WithWhatTheLogSays(const DoctorFlags& flags, const LogRecord& log) {
  DoctorFlags launch = flags;
  if (log.engine == LogEngine::kUnknown) return launch;
  if (launch.engine.empty()) launch.engine = LogEngineName(log.engine);
  if (launch.engine != LogEngineName(log.engine)) return launch;
  const bool version_known = log.version && ParseEngineVersion(log.version->value).ok();
  if (launch.engine_version.empty() && version_known) launch.engine_version = log.version->value;
  const bool dtype_given =
      !launch.kv_cache_dtype.empty() || !launch.cache_type_k.empty() || !launch.cache_type_v.empty();
  if (!dtype_given && log.kv_dtype_requested) launch.kv_cache_dtype = log.kv_dtype_requested->value;
  if (launch.device.empty() && launch.gpu.empty() && log.on_cpu) launch.device = "cpu";
  return launch;
}

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Status ReadInputs(const DoctorFlags& flags, Inputs& inputs) {
  if (!flags.log.empty()) {
    HAYPILE_TRY_ASSIGN(inputs.log, ReadStartLog(flags.log));
  }
  if (flags.AsksForLaunch()) {
    const DoctorFlags launch = inputs.log ? WithWhatTheLogSays(flags, *inputs.log) : flags;
    HAYPILE_TRY_ASSIGN(inputs.launch, MakeLaunchInput(launch, inputs.launch_checkpoint));
    inputs.prediction = PredictLaunch(*inputs.launch);
  }
  if (!flags.baseline.empty()) {
    HAYPILE_TRY_ASSIGN(inputs.baseline, ReadStartLog(flags.baseline));
  }
  if (!flags.checkpoint.empty() && (flags.probe.empty() || IsFolder(flags.checkpoint))) {
    HAYPILE_TRY_ASSIGN(inputs.checkpoint, ReadCheckpointScales(flags.checkpoint));
  }
  if (!flags.plan.empty()) {
    HAYPILE_TRY_ASSIGN(inputs.plan, ReadPlanFile(flags.plan));
  }
  if (!flags.metrics.empty()) {
    HAYPILE_TRY_ASSIGN(inputs.metrics, Watch(flags));
  }
  if (!flags.probe.empty()) {
    HAYPILE_TRY_ASSIGN(inputs.probe, Probe(flags, inputs));
  }
  return {};
}

template <typename T>
const T* OrNull(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

// "http://HOST:PORT" of the metrics' URL; empty for a file.
std::string OriginOf(const std::string& metrics) {
  const std::string_view scheme = "http://";
  return metrics.starts_with(scheme) ? metrics.substr(0, metrics.find('/', scheme.size())) : std::string();
}

GivenNames NamesOf(const DoctorFlags& flags, const DoctorInput& input) {
  GivenNames names;
  names.model = !flags.model.empty() ? flags.model : flags.checkpoint;
  if (names.model == "-") names.model.clear();
  if (input.checkpoint != nullptr && input.checkpoint->files_read) names.weights = input.checkpoint->folder;
  if (names.model.ends_with(".gguf")) names.weights = names.model;
  if (flags.log != "-") names.log = flags.log;
  if (IsMetricsUrl(flags.metrics)) names.metrics_url = flags.metrics;
  names.server_url = input.server_url;
  if (!flags.probe.empty()) names.weights = flags.checkpoint;
  return names;
}

DoctorReport Judge(const DoctorFlags& flags, const Inputs& inputs) {
  DoctorReport report;
  DoctorInput& input = report.input;
  input.log = OrNull(inputs.log);
  input.baseline = OrNull(inputs.baseline);
  input.checkpoint = OrNull(inputs.checkpoint);
  if (input.checkpoint == nullptr && inputs.launch) input.checkpoint = inputs.launch->checkpoint;
  input.plan = OrNull(inputs.plan);
  input.metrics = OrNull(inputs.metrics);
  if (flags.planned_tokens > 0) input.planned_tokens = flags.planned_tokens;
  input.log_name = flags.log == "-" ? "start.log" : flags.log;
  input.metrics_name = flags.metrics;
  input.server_url = !flags.probe.empty() ? flags.probe : OriginOf(flags.metrics);
  if (inputs.launch) {
    input.launch = &inputs.prediction;
    report.launch_input = &*inputs.launch;
    report.findings = inputs.prediction.findings;
  }
  const auto add = [&report](Findings findings) {
    report.findings.insert(report.findings.end(), findings.begin(), findings.end());
  };
  if (input.log != nullptr) add(DiagnoseLog(input));
  if (input.metrics != nullptr) add(DiagnoseWindow(*input.metrics));
  if (inputs.probe) report.findings.insert(report.findings.begin(), ProbeFinding(*inputs.probe));
  NameCommands(NamesOf(flags, input), report.findings);
  if (flags.checklist || inputs.Count() >= 2) report.checklist = Checklist(input, report.findings);
  return report;
}

Status RunDoctorCommand(const DoctorFlags& flags) {
  HAYPILE_TRY(CheckFlags(flags));
  Inputs inputs;
  HAYPILE_TRY(ReadInputs(flags, inputs));
  const DoctorReport report = Judge(flags, inputs);
  if (flags.json) {
    Json document = DoctorJson(kVersion, report);
    if (inputs.probe) document["probe"] = ProbeJson(*inputs.probe);
    fmt::print("{}\n", DumpJson(document));
  } else {
    PrintDoctorReport(report, OrNull(inputs.probe));
  }
  return {};
}

}  // namespace

void AddDoctorCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand(
      "doctor", "What an engine's KV cache really is, from its log and metrics, or what it will be; and what to do");
  auto flags = std::make_shared<DoctorFlags>();
  AddDoctorFlags(*command, *flags);
  command->callback([&chosen, flags] { chosen = [flags] { return RunDoctorCommand(*flags); }; });
}

}  // namespace haypile
