#include "engines/doctor.h"

#include <algorithm>

#include "base/text.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

// What was asked for and what is used, and where it stands.
void FindDtype(const DoctorInput& input, Findings& findings) {
  const LogRecord& log = *input.log;
  if (log.engine == LogEngine::kUnknown) return;
  const std::string used = CacheDtype(log);
  Finding finding{.id = "dtype.used", .severity = Severity::kNote};
  if (log.kv_dtype_requested) finding.evidence.push_back(log.kv_dtype_requested->line);
  if (!log.kv_dtype_used.empty()) finding.evidence.push_back(log.kv_dtype_used.back().line);
  const std::string asked = log.kv_dtype_requested ? log.kv_dtype_requested->value : "";
  if (used.empty()) {
    finding.severity = Severity::kUnknown;
    finding.what = "The log does not say which dtype the KV cache has.";
    finding.why = "Nothing about scales or sizes can be judged without it.";
    finding.type = {"give the log from the engine's first line on, with its configuration"};
    finding.check = "this command names a dtype";
  } else if (log.engine == LogEngine::kVllm && asked == "auto" && log.quantization &&
             LowerCase(log.quantization->value) == "compressed-tensors") {
    const bool known = input.checkpoint != nullptr && input.checkpoint->geometry_known;
    const std::string scheme = known ? input.checkpoint->geometry.checkpoint_kv_dtype : "";
    finding.id = scheme.empty() ? "dtype.auto_may_change" : "dtype.auto_becomes_fp8";
    finding.severity = !known ? Severity::kUnknown : scheme.empty() ? Severity::kNote : Severity::kWarning;
    finding.what = !known ? "The log prints kv_cache_dtype=auto, but a compressed-tensors checkpoint with a "
                            "kv_cache_scheme silently turns that into fp8 later; no line tells."
                   : scheme.empty()
                       ? "The cache keeps the model's dtype: the checkpoint has no kv_cache_scheme."
                       : "The log prints kv_cache_dtype=auto, yet the checkpoint's kv_cache_scheme turns it "
                         "into " +
                             scheme + " without a line.";
    finding.why = "The engine checks no device for it: some crash or slow down, and the pool is twice what auto holds.";
    finding.type = {known ? "--kv-cache-dtype bfloat16   # the model's dtype, said aloud"
                          : "haypile doctor --log LOG --checkpoint FOLDER"};
    finding.check = "the printed pool tokens halve when the cache really was fp8";
  } else {
    const bool differs = !asked.empty() && asked != "auto" && !log.kv_dtype_used.empty() &&
                         IsQuantizedDtype(asked) != IsQuantizedDtype(used);
    finding.severity = differs ? Severity::kWarning : Severity::kNote;
    if (differs) finding.id = "dtype.differs";
    finding.what = "KV cache dtype: " + (asked.empty() ? "asked for: not said" : "asked for " + asked) +
                   ", used: " + used +
                   (used == "auto" && log.model_dtype ? " (the model's, " + log.model_dtype->value + ")" : "") + ".";
    finding.why = differs ? "The engine serves another dtype than the one that was asked for."
                          : "Everything below is judged for this dtype.";
    if (differs) {
      finding.type = {DtypeFlag(log.engine, asked) + "   # with a backend and a device that serve it",
                      "haypile plan MODEL --gpu NAME   # which dtypes are served there"};
      finding.check = "the dtype that the pool's line names is the one asked for";
    }
  }
  findings.push_back(std::move(finding));
}

void FindUnread(const DoctorInput& input, Findings& findings) {
  const LogRecord& log = *input.log;
  const std::string share = std::to_string(log.lines - log.recognised) + " of " + std::to_string(log.lines) + " lines";
  if (log.engine == LogEngine::kUnknown) {
    findings.push_back(
        {"log.unknown",
         Severity::kUnknown,
         "No line of this log is of vLLM, SGLang, TensorRT-LLM or llama.cpp as this program knows them: " + share +
             " were not recognised, " + std::to_string(log.unrecognised_about_cache) + " of them speak of a KV cache.",
         log.unrecognised,
         "Nothing was judged; that nothing is reported means nothing.",
         {"haypile doctor --log FILE   # the engine's own output, from its first line on"},
         "the report names an engine and a version"});
    return;
  }
  if (log.unrecognised_about_cache == 0) return;
  findings.push_back({"log.unread",
                      Severity::kNote,
                      share + " were not recognised; " + std::to_string(log.unrecognised_about_cache) +
                          " of them speak of the KV cache and were not judged.",
                      log.unrecognised,
                      "An engine version may print something new.",
                      {},
                      "read these lines yourself"});
}

}  // namespace

std::string SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kGood:
      return "good";
    case Severity::kNote:
      return "note";
    case Severity::kUnknown:
      return "unknown";
    case Severity::kWarning:
      return "warning";
    case Severity::kProblem:
      break;
  }
  return "problem";
}

std::string CacheDtype(const LogRecord& log) {
  if (!log.kv_dtype_used.empty()) return log.kv_dtype_used.back().value;
  return log.kv_dtype_requested ? log.kv_dtype_requested->value : "";
}

std::optional<bool> IsQuantizedDtype(std::string_view dtype) {
  const std::string name = LowerCase(dtype);
  if (name.empty() || name == "auto") return std::nullopt;
  for (const std::string_view part : {"fp8", "float8", "e4m3", "e5m2", "fp4", "float4", "int8", "int4", "uint8",
                                      "turboquant", "q8_0", "q4_", "q5_", "iq4", "mx"}) {
    if (Contains(name, part)) return true;
  }
  return false;
}

bool NeedsCheckpointScales(LogEngine engine, std::string_view dtype) {
  const std::string name = LowerCase(dtype);
  if (engine == LogEngine::kLlamacpp || Contains(name, "per_token_head") || Contains(name, "turboquant") ||
      Contains(name, "mx") || Contains(name, "ds_mla") || Contains(name, "e5m2")) {
    return false;
  }
  return Contains(name, "fp8") || Contains(name, "float8") || Contains(name, "e4m3") || Contains(name, "nvfp4");
}

std::string DtypeFlag(LogEngine engine, const std::string& dtype) {
  if (engine == LogEngine::kLlamacpp) return "-ctk " + dtype + " -ctv " + dtype;
  if (engine == LogEngine::kTrtllm) return "kv_cache_config: {dtype: " + dtype + "}";
  return "--kv-cache-dtype " + dtype;
}

std::string ModelDtypeFlag(LogEngine engine) {
  return DtypeFlag(engine, engine == LogEngine::kLlamacpp ? "f16" : "auto");
}

Findings DiagnoseLog(const DoctorInput& input) {
  Findings findings;
  FindErrors(input, findings);
  FindDtype(input, findings);
  FindScales(input, findings);
  FindBackends(input, findings);
  FindPool(input, findings);
  FindIdleMemory(input, findings);
  FindPlanGap(input, findings);
  FindLoad(input, findings);
  FindUnread(input, findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

}  // namespace haypile
