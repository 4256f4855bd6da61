#include "doctor_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "output.h"
#include "probe/probe_report.h"
#include "report/text_table.h"

namespace haypile {
namespace {

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

CellTone ToneOf(CheckState state) {
  switch (state) {
    case CheckState::kDone:
      return CellTone::kGood;
    case CheckState::kTrouble:
      return CellTone::kBad;
    case CheckState::kOpen:
      break;
  }
  return CellTone::kWarn;
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

void PrintLaunchHead(const LaunchInput& input, const LaunchPrediction& prediction) {
  const std::string version = PlannedEngine(input.engine)
                                  ? " " + LaunchVersionText(input) + (input.version ? "" : " (assumed)")
                                  : std::string();
  std::string verdict = LaunchVerdictName(prediction.verdict);
  std::replace(verdict.begin(), verdict.end(), '_', ' ');
  fmt::print("before the start: {}{} on {}, {}, KV cache dtype {}: {}\n", input.engine, version,
             DeviceText(input.device, input.gpu), WithoutControls(input.model.name), input.kv_cache_dtype, verdict);
  fmt::print("  backend: {}; storage: {}; attention computes in: {}\n\n",
             prediction.backend.empty() ? "not known" : prediction.backend, prediction.storage, prediction.arithmetic);
}

void PrintLogHead(const LogRecord& log) {
  const auto said = [](const SaidText& text) { return text ? WithoutControls(text->value) : std::string("not said"); };
  fmt::print("log: engine {}, version {}, model {}; {} of {} lines read\n\n", LogEngineName(log.engine),
             said(log.version), said(log.model), log.recognised, log.lines);
}

void PrintProbeHead(const ProbeResult& probe, int width, bool colour) {
  for (const std::string& line : ProbeHead(probe)) {
    const size_t indent = line.find_first_not_of(' ');
    for (const std::string& part : WrapText(WithoutControls(line.substr(indent)), static_cast<size_t>(width - 2))) {
      fmt::print("{}{}\n", std::string(indent, ' '), part);
    }
  }
  fmt::print("{}", ProbeTable(probe).Render(width, colour, 2));
  fmt::print(
      "  distance: mean squared difference of log-probabilities, square nats a token; step: the same from bf16\n");
  fmt::print("  share: how far the server goes along with the step; 0: not at all\n");
  for (const std::string& open : ProbeNotMeasured(probe)) PrintWrapped("open", open, width);
  fmt::print("\n");
}

void PrintChecklist(const std::vector<CheckStep>& steps, int width, bool colour) {
  fmt::print("The order of checks\n");
  for (size_t i = 0; i < steps.size(); ++i) {
    const CheckStep& step = steps[i];
    fmt::print("{} {}. {}\n", Toned("[" + CheckStateName(step.state) + "]", ToneOf(step.state), colour), i + 1,
               step.question);
    PrintWrapped("", step.answer, width);
    for (size_t line = 0; line < step.next.size(); ++line)
      PrintWrapped(line == 0 ? "next" : "", step.next[line], width);
  }
}

}  // namespace

void PrintDoctorReport(const DoctorReport& report, const ProbeResult* probe) {
  const int width = OutputWidth();
  const bool colour = OutputHasColour();
  const DoctorInput& input = report.input;
  if (input.launch != nullptr && report.launch_input != nullptr) PrintLaunchHead(*report.launch_input, *input.launch);
  if (input.log != nullptr) PrintLogHead(*input.log);
  if (input.metrics != nullptr && input.metrics->looks > 1) {
    fmt::print("metrics: {} looks over {:.1f} s\n\n", input.metrics->looks, input.metrics->seconds);
  }
  if (probe != nullptr) PrintProbeHead(*probe, width, colour);
  for (const Finding& finding : report.findings) PrintFinding(finding, width, colour);
  if (!report.checklist.empty()) PrintChecklist(report.checklist, width, colour);
}

}  // namespace haypile
