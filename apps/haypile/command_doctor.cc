#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "command.h"
#include "engines/doctor.h"
#include "engines/start_log.h"
#include "output.h"
#include "report/text_table.h"
#include "version.h"

namespace haypile {
namespace {

struct DoctorFlags {
  std::string log, baseline, checkpoint, metrics;
  int64_t planned_tokens = 0;
  bool json = false;
};

CellTone ToneOf(Severity severity) {
  switch (severity) {
    case Severity::kProblem:
      return CellTone::kBad;
    case Severity::kWarning:
    case Severity::kUnknown:
      return CellTone::kWarn;
    case Severity::kGood:
      return CellTone::kGood;
    case Severity::kNote:
      break;
  }
  return CellTone::kPlain;
}

void PrintWrapped(const std::string& label, const std::string& text, int width) {
  if (text.empty()) return;
  const auto lines = WrapText(WithoutControls(text), static_cast<size_t>(std::max(width - 12, 20)));
  for (size_t i = 0; i < lines.size(); ++i) fmt::print("  {:<10}{}\n", i == 0 ? label : "", lines[i]);
}

void PrintFinding(const Finding& finding, int width, bool colour) {
  fmt::print("{} {}\n", Toned("[" + SeverityName(finding.severity) + "]", ToneOf(finding.severity), colour),
             finding.id);
  PrintWrapped("", finding.what, width);
  for (size_t i = 0; i < finding.evidence.size(); ++i) {
    const LogLine& line = finding.evidence[i];
    PrintWrapped(i == 0 ? "evidence" : "",
                 line.number > 0 ? fmt::format("line {}: {}", line.number, line.text.substr(0, 160)) : line.text,
                 width);
  }
  PrintWrapped("why", finding.why, width);
  for (size_t i = 0; i < finding.type.size(); ++i) PrintWrapped(i == 0 ? "type" : "", finding.type[i], width);
  PrintWrapped("check", finding.check, width);
  fmt::print("\n");
}

void PrintHead(const LogRecord& log) {
  const auto said = [](const SaidText& text) { return text ? WithoutControls(text->value) : std::string("not said"); };
  fmt::print("engine {}, version {}, model {}; {} of {} lines read\n\n", LogEngineName(log.engine), said(log.version),
             said(log.model), log.recognised, log.lines);
}

void Print(const DoctorFlags& flags, const DoctorInput& input, const PoolMetrics* metrics, const Findings& findings) {
  if (flags.json) {
    fmt::print("{}\n", DumpJson(DoctorJson(kVersion, input, metrics, findings)));
    return;
  }
  if (input.log != nullptr) PrintHead(*input.log);
  for (const Finding& finding : findings) PrintFinding(finding, OutputWidth(), OutputHasColour());
}

Status RunOnMetrics(const DoctorFlags& flags) {
  HAYPILE_TRY_ASSIGN(const std::string text, FetchMetrics(flags.metrics));
  auto samples = ParseMetricsText(text);
  if (!samples.ok()) return std::move(samples).error().WithContext("reading '" + flags.metrics + "'");
  const PoolMetrics metrics = PoolMetricsOf(*samples);
  Print(flags, {}, &metrics, DiagnoseMetrics(metrics));
  return {};
}

Status RunOnLog(const DoctorFlags& flags) {
  HAYPILE_TRY_ASSIGN(const LogRecord log, ReadStartLog(flags.log));
  DoctorInput input;
  input.log = &log;
  LogRecord baseline;
  if (!flags.baseline.empty()) {
    HAYPILE_TRY_ASSIGN(baseline, ReadStartLog(flags.baseline));
    input.baseline = &baseline;
  }
  CheckpointScales checkpoint;
  if (!flags.checkpoint.empty()) {
    HAYPILE_TRY_ASSIGN(checkpoint, ReadCheckpointScales(flags.checkpoint));
    input.checkpoint = &checkpoint;
  }
  if (flags.planned_tokens > 0) input.planned_tokens = flags.planned_tokens;
  Print(flags, input, nullptr, DiagnoseLog(input));
  return {};
}

Status RunDoctorCommand(const DoctorFlags& flags) {
  if (flags.log.empty() == flags.metrics.empty()) {
    return Error(ErrorCode::kInvalidArgument, "give one of --log FILE and --metrics URL");
  }
  if (flags.planned_tokens < 0)
    return Error(ErrorCode::kInvalidArgument, "--planned-tokens: expected a positive number");
  if (flags.log == "-" && flags.baseline == "-") {
    return Error(ErrorCode::kInvalidArgument, "--log and --baseline cannot both be standard input");
  }
  if (!flags.metrics.empty()) {
    if (!flags.baseline.empty() || !flags.checkpoint.empty() || flags.planned_tokens != 0) {
      return Error(ErrorCode::kInvalidArgument, "--baseline, --checkpoint and --planned-tokens go with --log");
    }
    return RunOnMetrics(flags);
  }
  return RunOnLog(flags);
}

}  // namespace

void AddDoctorCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Read an engine's start-up log or metrics: what its KV cache really is, and what to do");
  auto flags = std::make_shared<DoctorFlags>();
  command->add_option("--log", flags->log, "Log of vLLM, SGLang, TensorRT-LLM or llama.cpp; - is standard input");
  command->add_option("--baseline", flags->baseline, "Log of another start of the same model, to compare with");
  command->add_option("--checkpoint", flags->checkpoint, "Folder or config.json of the model that was served");
  command->add_option("--planned-tokens", flags->planned_tokens, "Pool tokens that a plan gave");
  command->add_option("--metrics", flags->metrics, "http://HOST:PORT[/metrics], or a file of metrics text");
  command->add_flag("--json", flags->json, "Print JSON (docs/schemas/haypile.doctor-1.schema.json)");
  command->callback([&chosen, flags] { chosen = [flags] { return RunDoctorCommand(*flags); }; });
}

}  // namespace haypile
