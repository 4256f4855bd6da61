#include <string>
#include <tuple>

#include "base/text.h"
#include "probe/probe.h"

namespace haypile {
namespace {

std::string Plain(const std::string& said) {
  std::string name = LowerCase(said);
  if (name.starts_with("torch.")) name = name.substr(6);
  return name;
}

bool IsUnquantized(const std::string& name) {
  for (const char* plain : {"bfloat16", "bf16", "float16", "fp16", "f16", "half", "float32", "fp32", "float", "f32"}) {
    if (name == plain) return true;
  }
  return false;
}

// The spellings of vLLM, SGLang, TensorRT-LLM and PyTorch that our own names do not cover.
std::string OwnName(const std::string& name) {
  if (name == "fp8_e4m3fn" || name == "float8_e4m3fn" || name == "float8_e4m3" || name == "fp8_inc") return "fp8_e4m3";
  if (name == "float8_e4m3fnuz") return "fp8_e4m3fnuz";
  if (name == "float8_e5m2") return "fp8_e5m2";
  return name;
}

// Nothing to say: not given, or left to the checkpoint.
bool IsOpen(const std::string& name) { return name.empty() || name == "auto"; }

Result<ProbeDtype> Named(const std::string& said, ProbeDtypeSource source) {
  ProbeDtype out;
  out.source = source;
  out.said = said;
  const std::string name = Plain(said);
  if (IsUnquantized(name)) {
    out.said_unquantized = true;
    return out;
  }
  HAYPILE_TRY_ASSIGN(out.dtype, ParseKvDtype(OwnName(name)));
  return out;
}

}  // namespace

const char* NameOf(ProbeDtypeSource source) {
  switch (source) {
    case ProbeDtypeSource::kFlag:
      return "flag";
    case ProbeDtypeSource::kLog:
      return "log";
    case ProbeDtypeSource::kCheckpoint:
      return "checkpoint";
    case ProbeDtypeSource::kAssumed:
      break;
  }
  return "assumed";
}

Result<ProbeDtype> ChooseProbeDtype(const ProbeDtypeHints& hints) {
  for (const auto& [said, source, where] :
       {std::tuple(&hints.flag, ProbeDtypeSource::kFlag, "--kv-cache-dtype"),
        std::tuple(&hints.log, ProbeDtypeSource::kLog, "the log's KV dtype (give --kv-cache-dtype)"),
        std::tuple(&hints.checkpoint, ProbeDtypeSource::kCheckpoint,
                   "the checkpoint's KV dtype (give --kv-cache-dtype)")}) {
    if (IsOpen(Plain(*said))) continue;
    auto named = Named(*said, source);
    if (!named.ok()) return std::move(named).error().WithContext(where);
    return named;
  }
  ProbeDtype assumed;
  if (hints.checkpoint_has_scales) {
    assumed.source = ProbeDtypeSource::kCheckpoint;
    assumed.said = "KV scales among its tensors";
  }
  return assumed;
}

}  // namespace haypile
