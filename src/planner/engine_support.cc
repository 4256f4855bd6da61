#include "planner/engine_support.h"

#include <algorithm>

#include "planner/engine_support_case.h"

namespace haypile {
namespace {

// "SM89 or newer with head sizes 64, 128; or an AMD GPU": what the rows of a dtype ask for.
std::string NeedsOfRows(const std::vector<const SupportRow*>& rows) {
  std::string needs;
  for (const SupportRow* row : rows) {
    std::string need = DeviceWordsText(row->devices);
    if (!row->heads.empty()) need += " with head sizes " + HeadWordsText(row->heads);
    if (!row->layouts.empty())
      need += HasWord(row->layouts, "heads") ? " and a model without MLA" : " and an MLA model";
    if (needs.find(need) == std::string::npos) needs += (needs.empty() ? "" : "; or ") + need;
  }
  return needs;
}

std::string BackendsText(const std::vector<const SupportRow*>& rows) {
  std::vector<std::string> names;
  for (const SupportRow* row : rows) {
    if (row->backend.empty()) return "every backend";
    if (std::find(names.begin(), names.end(), row->backend) == names.end()) names.emplace_back(row->backend);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

DtypeSupport OneDtype(const SupportCase& start) {
  std::vector<const SupportRow*> rows, served;
  for (const SupportRow& row : SupportRows()) {
    if (row.engine != start.engine || row.named_only || !HasWord(row.dtypes, start.dtype)) continue;
    rows.push_back(&row);
    const bool device_known = DeviceMatches(row.devices, start.device, start.gpu) != Match::kUnknown;
    if (device_known && AnswerOf(row, start).match != Match::kNo) served.push_back(&row);
  }
  const std::string engine = EngineName(start.engine);
  if (!served.empty()) {
    return {Served::kYes, "Served by " + BackendsText(served) + ".", std::string(served.front()->source)};
  }
  if (rows.empty()) {
    return {Served::kUnknown, "It is not known where " + engine + " serves " + start.dtype + ".", ""};
  }
  const std::string source(rows.front()->source);
  if (start.device == DeviceKind::kGpu && !start.gpu) {
    return {
        Served::kUnknown,
        "The device is not named (--gpu); " + start.dtype + " needs " + DeviceWordsText(rows.front()->devices) + ".",
        source};
  }
  return {Served::kNo,
          engine + " does not serve " + start.dtype + " on " + DeviceText(start.device, start.gpu) +
              " for this model; it needs " + NeedsOfRows(rows) + ".",
          source};
}

}  // namespace

DtypeSupport SupportOf(EngineKind engine, const std::string& dtype, DeviceKind device,
                       const std::optional<GpuSpec>& gpu, const ModelGeometry& model) {
  if (engine == EngineKind::kHaypile && gpu) {
    return {Served::kNo, "haypile runs on the CPU only.", "docs/formats/README.md"};
  }
  SupportCase start{engine, {},    engine == EngineKind::kHaypile ? DeviceKind::kCpu : device,
                    gpu,    dtype, TraitsOf(model)};
  const size_t slash = dtype.find('/');  // llama.cpp and Haypile: K and V types apart
  if (slash == std::string::npos) return OneDtype(start);
  start.dtype = dtype.substr(0, slash);
  DtypeSupport keys = OneDtype(start);
  if (keys.served != Served::kYes) return keys;
  start.dtype = dtype.substr(slash + 1);
  return OneDtype(start);
}

std::vector<std::string> DefaultDtypes(EngineKind engine, DeviceKind device, const ModelGeometry& model) {
  const bool mla = TraitsOf(model).mla;
  switch (engine) {
    case EngineKind::kVllm:
      if (device == DeviceKind::kCpu)
        return mla ? std::vector<std::string>{"auto"} : std::vector<std::string>{"auto", "fp8"};
      if (mla) return {"auto", "fp8"};
      return {"auto", "fp8", "nvfp4", "int8_per_token_head", "int4_per_token_head"};
    case EngineKind::kSglang:
      return {"auto", "fp8_e4m3", "nvfp4"};
    case EngineKind::kTrtllm:
      return {"auto", "fp8", "nvfp4"};
    case EngineKind::kLlamacpp:
      return {"f16", "q8_0", "q5_1", "q4_0"};
    case EngineKind::kHaypile:
      return {"bf16", "fp8_e4m3", "int8_per_token_head", "nvfp4"};
  }
  return {};
}

std::string SixteenBitDtype(EngineKind engine) {
  switch (engine) {
    case EngineKind::kVllm:
    case EngineKind::kSglang:
      return "bfloat16";
    case EngineKind::kTrtllm:
      return "auto";
    case EngineKind::kLlamacpp:
      return "f16";
    case EngineKind::kHaypile:
      return "bf16";
  }
  return "";
}

std::string EightBitDtype(EngineKind engine) {
  switch (engine) {
    case EngineKind::kVllm:
    case EngineKind::kTrtllm:
      return "fp8";
    case EngineKind::kSglang:
    case EngineKind::kHaypile:
      return "fp8_e4m3";
    case EngineKind::kLlamacpp:
      return "q8_0";
  }
  return "";
}

}  // namespace haypile
