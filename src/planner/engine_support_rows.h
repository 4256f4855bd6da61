#pragma once

#include <span>
#include <string_view>

#include "planner/plan_request.h"

namespace haypile {

// One fact of the support matrix: a backend of an engine serves these KV dtypes there. Every text is a list of words
// in the small language of engine_support_match.h.
struct SupportRow {
  EngineKind engine;
  std::string_view backend;   // as the engine spells it; "": whichever it takes
  std::string_view dtypes;    // any of them, in the engine's spelling
  std::string_view devices;   // any of them
  std::string_view layouts;   // any of "heads", "mla", "sparse"; "": all
  std::string_view heads;     // holds of every head size; "": any size
  std::string_view windows;   // "yes", "no", "?": layers with sliding windows
  std::string_view sinks;     // the same of attention sinks
  std::string_view drafts;    // the same of speculative decoding
  std::string_view versions;  // of the engine
  // What attention computes in on this device: "fp8", "fp8 in prefill", "16 bits" (values are widened), "?".
  std::string_view arithmetic;
  std::string_view source;
  bool named_only = false;  // never chosen by the engine itself
};

// In the order in which an engine tries its backends, as far as that order is the same on all devices.
std::span<const SupportRow> SupportRows();

std::span<const SupportRow> VllmSupportRows();
std::span<const SupportRow> OtherSupportRows();  // SGLang, TensorRT-LLM, llama.cpp

}  // namespace haypile
