#include <algorithm>
#include <set>

#include "base/text.h"
#include "engines/doctor.h"
#include "engines/launch_support.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

std::vector<LogLine> BackendEvidence(const LogRecord& log) {
  std::vector<LogLine> evidence;
  if (log.backend_requested) evidence.push_back(log.backend_requested->line);
  for (const BackendLine& backend : log.backends) {
    if (evidence.size() < 6) evidence.push_back(backend.line);
  }
  return evidence;
}

std::string Names(const LogRecord& log) {
  std::string names;
  std::set<std::string> seen;
  for (const BackendLine& backend : log.backends) {
    if (seen.insert(PlainBackend(backend.backend)).second) names += (names.empty() ? "" : ", ") + backend.backend;
  }
  return names;
}

void AddFpFourDrafter(const LogRecord& log, Findings& findings) {
  const std::string dtype = LowerCase(CacheDtype(log));
  if (!log.speculative || !(Contains(dtype, "fp4") || Contains(dtype, "float4"))) return;
  findings.push_back(
      {"backend.fp4_with_drafter",
       Severity::kWarning,
       "An FP4 cache with speculative decoding (" + log.speculative->value.substr(0, 60) +
           "): the drafter's layers take the same dtype unless it is set apart, and few pairs are supported.",
       {log.speculative->line},
       "Acceptance falls when the drafter's cache is coarser than it was trained for, and some pairs fail at "
       "the first draft.",
       {log.engine == LogEngine::kSglang ? "--speculative-draft-kv-cache-dtype bfloat16"
                                         : "\"kv_cache_dtype\": \"bfloat16\" in --speculative-config"},
       "accepted tokens per pass are as high as with the model's dtype"});
}

}  // namespace

void FindBackends(const DoctorInput& input, Findings& findings) {
  const LogRecord& log = *input.log;
  AddFpFourDrafter(log, findings);
  const std::string asked = log.backend_requested ? log.backend_requested->value : "";
  if (log.backends.empty() && log.backend_changes.empty()) {
    if (asked.empty() && log.engine != LogEngine::kVllm && log.engine != LogEngine::kSglang) return;
    const std::string cpu = log.on_cpu ? " vLLM's CPU build prints none: it has one, CPU_ATTN." : "";
    findings.push_back({"backend.not_said",
                        Severity::kNote,
                        "Attention backend: asked for: " + (asked.empty() ? "not said" : asked) +
                            "; the log names none that was chosen." + cpu,
                        BackendEvidence(log),
                        "Speed and accuracy depend on it; a comparison needs it named.",
                        {},
                        "the log holds a line that names the backend"});
    return;
  }
  std::vector<LogLine> different;
  for (const BackendLine& backend : log.backends) {
    if (!asked.empty() && asked != "auto" && PlainBackend(backend.backend) != PlainBackend(asked))
      different.push_back(backend.line);
  }
  for (const auto& change : log.backend_changes) {
    if (different.empty() || different.back().number != change.line.number) different.push_back(change.line);
  }
  Finding finding{
      "backend.used",
      Severity::kNote,
      "Attention backend: asked for: " + (asked.empty() ? "not said" : asked) + ", used: " + Names(log) + ".",
      BackendEvidence(log),
      "A comparison that does not name the backend compares two things at once.",
      {},
      "the same line at every start that is compared"};
  if (!different.empty()) {
    finding.id = "backend.differs";
    finding.severity = Severity::kWarning;
    finding.evidence = different;
    if (log.backend_requested) finding.evidence.insert(finding.evidence.begin(), log.backend_requested->line);
    const bool mixed =
        log.backends.size() > different.size() || (log.engine == LogEngine::kVllm && log.backends.size() > 0);
    finding.what = "The backend that was asked for (" + (asked.empty() ? "not said" : asked) +
                   ") is not the one that " + (mixed ? "every group of layers uses: " : "is used: ") + Names(log) + ".";
    finding.why =
        "Backends are chosen for each group of layers, and a KV dtype can rule one out: speed and accuracy are then "
        "another backend's, and a test of two backends compares the wrong things.";
    const bool e5m2 = Contains(LowerCase(CacheDtype(log)), "e5m2");
    const bool only_e4m3 = std::any_of(different.begin(), different.end(), [](const LogLine& line) {
      return Contains(line.text, "only supports fp8_e4m3");
    });
    finding.type = {e5m2 || only_e4m3 ? "--kv-cache-dtype fp8_e4m3   # the FP8 format that backend takes"
                                      : "--attention-backend " +
                                            (log.backends.empty() ? std::string("NAME") : log.backends.back().backend) +
                                            "   # name the one that really serves this dtype",
                    ModelDtypeFlag(log.engine) + "   # keeps the backend that was asked for"};
    finding.check = "every backend line names the same backend as the flag";
  }
  findings.push_back(std::move(finding));
}

}  // namespace haypile
