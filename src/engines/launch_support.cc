#include "engines/launch_support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "engines/log_scan.h"
#include "planner/vllm_backends.h"

namespace haypile {
namespace {

struct Judged {
  const SupportRow* row;
  RowAnswer answer;
};

bool IsAsked(const LaunchInput& input) { return !input.backend.empty() && LowerCase(input.backend) != "auto"; }

std::vector<Judged> Judge(const LaunchInput& input, EngineKind engine, const std::string& dtype, bool with_version) {
  SupportCase start{engine, {}, input.device, input.gpu, dtype, TraitsOf(input.model)};
  if (with_version) start.version = LaunchVersion(input);
  start.drafts = !input.speculative_method.empty();
  std::vector<Judged> judged;
  for (const SupportRow& row : SupportRows()) {
    if (row.engine != engine || !HasWord(row.dtypes, dtype)) continue;
    if (IsAsked(input) ? PlainBackend(row.backend) != PlainBackend(input.backend) : row.named_only) continue;
    judged.push_back({&row, AnswerOf(row, start)});
  }
  return judged;
}

// The first backend in vLLM's own order; "" where the planner does not know it.
std::string PlannersChoice(const LaunchInput& input, const std::string& dtype) {
  if (input.engine != "vllm" || (input.gpu && input.gpu->sm == 0)) return "";
  if (input.device == DeviceKind::kGpu && !input.gpu) return "";
  const auto parsed = ParseVllmKvDtype(dtype);
  if (!parsed.ok()) return "";
  PlanRequest request;
  request.version = LaunchVersion(input);
  request.device = input.device;
  request.gpu_sm = input.gpu ? input.gpu->sm : 0;
  const VllmBackendChoice choice = ChooseVllmBackend(input.model, request, *parsed, VllmRulesOf(request.version));
  return choice.refusal.empty() ? choice.backend.name : "";
}

const Judged* Pick(const std::vector<Judged>& judged, Match match, const std::string& preferred) {
  const Judged* first = nullptr;
  for (const Judged& one : judged) {
    if (one.answer.match != match) continue;
    if (!preferred.empty() && one.row->backend == preferred) return &one;
    // A row that names no backend is the answer only where no other is.
    if (first == nullptr || (first->row->backend.empty() && !one.row->backend.empty())) first = &one;
  }
  return first;
}

std::string Reasons(const std::vector<Judged>& judged) {
  std::string text;
  for (const Judged& one : judged) {
    const std::string backend = one.row->backend.empty() ? "any backend" : std::string(one.row->backend);
    const std::string part = fmt::format("{}: {}", backend, fmt::join(one.answer.objections, ", "));
    if (text.find(part) == std::string::npos) text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

std::string DtypesOfBackend(const LaunchInput& input, EngineKind engine) {
  std::string text;
  for (const SupportRow& row : SupportRows()) {
    if (row.engine != engine || PlainBackend(row.backend) != PlainBackend(input.backend)) continue;
    for (const std::string_view dtype : WordsOf(row.dtypes)) {
      if (!HasWord(text, dtype)) text += (text.empty() ? "" : " ") + std::string(dtype);
    }
  }
  return text;
}

LaunchSupport NoRow(const LaunchInput& input, EngineKind engine, const std::string& dtype) {
  LaunchSupport support;
  support.source = "no row of the support matrix";
  const std::string others = IsAsked(input) ? DtypesOfBackend(input, engine) : "";
  if (!others.empty()) {
    support.match = Match::kNo;
    support.backend = input.backend;
    support.what = fmt::format("{} does not take {}; it takes {}.", input.backend, dtype, others);
    for (const SupportRow& row : SupportRows()) {
      if (row.engine == engine && PlainBackend(row.backend) == PlainBackend(input.backend)) support.source = row.source;
    }
    return support;
  }
  support.what = IsAsked(input)
                     ? fmt::format("It is not known what the backend '{}' of {} serves.", input.backend, input.engine)
                     : fmt::format("It is not known where {} serves {}.", input.engine, dtype);
  return support;
}

LaunchSupport FromRow(const LaunchInput& input, const Judged& one, const std::string& dtype) {
  LaunchSupport support{one.answer.match,
                        std::string(one.row->backend),
                        "",
                        std::string(one.row->source),
                        std::string(one.row->arithmetic),
                        {}};
  const std::string backend = support.backend.empty() ? "every backend" : support.backend;
  const std::string device = DeviceText(input.device, input.gpu);
  if (one.answer.match == Match::kYes) {
    support.what = fmt::format("{} serves {} on {} for this model: {}.", input.engine, dtype, device, backend);
  } else {
    support.what = fmt::format(
        "Whether {} serves {} on {} for this model is not known. {} takes the dtype, and no row says "
        "anything of {}.",
        input.engine, dtype, device, backend, fmt::join(one.answer.unknown, ", "));
  }
  return support;
}

// Others that serve the dtype where the one that was asked for does not.
std::vector<std::string> Alternatives(const LaunchInput& input, EngineKind engine, const std::string& dtype) {
  LaunchInput free = input;
  free.backend.clear();
  std::vector<std::string> names;
  for (const Judged& one : Judge(free, engine, dtype, true)) {
    const std::string name(one.row->backend);
    if (one.answer.match == Match::kNo || name.empty()) continue;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::string PlainBackend(std::string_view backend) {
  std::string plain;
  for (const char c : LowerCase(backend)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) plain += c;
  }
  return plain;
}

LaunchSupport SupportOfLaunch(const LaunchInput& input, const std::string& dtype) {
  const auto engine = PlannedEngine(input.engine);
  if (!engine) {
    return {Match::kUnknown,
            "",
            fmt::format("It is not known what {} serves.", input.engine),
            "no row of the support matrix",
            "",
            {}};
  }
  const std::vector<Judged> judged = Judge(input, *engine, dtype, true);
  if (judged.empty()) {
    LaunchSupport support = NoRow(input, *engine, dtype);
    if (support.match == Match::kNo) support.alternatives = Alternatives(input, *engine, dtype);
    return support;
  }
  const std::string preferred = IsAsked(input) ? "" : PlannersChoice(input, dtype);
  if (const Judged* served = Pick(judged, Match::kYes, preferred)) return FromRow(input, *served, dtype);
  if (const Judged* unknown = Pick(judged, Match::kUnknown, preferred)) return FromRow(input, *unknown, dtype);
  const auto at_any_version = Judge(input, *engine, dtype, false);
  if (const Judged* other = Pick(at_any_version, Match::kYes, "")) {
    return {Match::kUnknown,
            "",
            fmt::format("Whether {} {} serves {} is not known: the rows are of versions {}.", input.engine,
                        LaunchVersionText(input), dtype, other->row->versions),
            std::string(other->row->source),
            "",
            {}};
  }
  LaunchSupport support{
      Match::kNo, IsAsked(input) ? input.backend : "", "", std::string(judged.front().row->source), "", {}};
  support.what = fmt::format("{} does not serve {} on {} for this model. {}.", input.engine, dtype,
                             DeviceText(input.device, input.gpu), Reasons(judged));
  if (IsAsked(input)) support.alternatives = Alternatives(input, *engine, dtype);
  return support;
}

}  // namespace haypile
