#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/engine_support_match.h"
#include "planner/engine_support_rows.h"
#include "planner/model_geometry.h"

namespace haypile {

// What rows of the matrix ask of a model.
struct ModelTraits {
  bool mla = false;
  bool sparse = false;                               // MLA with an indexer
  bool windows = false;                              // sliding windows, or chunks
  bool sinks = false;                                // attention sinks
  bool states = false;                               // recurrent layers beside attention
  bool kv_shared = false;                            // layers that read another layer's cache
  bool heads_differ = false;                         // K and V have different head sizes
  std::set<int> head_dims_k, head_dims_v, kv_heads;  // of layers with keys and values by head

  std::set<int> HeadDims() const;
  std::string Layout() const;  // "heads", "mla", "sparse"
};
ModelTraits TraitsOf(const ModelGeometry& model);

// A start to be held to the rows.
struct SupportCase {
  EngineKind engine = EngineKind::kVllm;
  std::optional<EngineVersion> version = {};  // empty: any
  DeviceKind device = DeviceKind::kGpu;
  std::optional<GpuSpec> gpu = {};  // empty: the CPU, or a GPU that is not named
  std::string dtype;
  ModelTraits traits = {};
  bool drafts = false;  // speculative decoding
};

struct RowAnswer {
  Match match = Match::kNo;
  std::vector<std::string> objections;  // kNo: "needs SM89 or newer", ...
  std::vector<std::string> unknown;     // kUnknown: "sliding windows", "the device", ...
};
RowAnswer AnswerOf(const SupportRow& row, const SupportCase& start);

// "divisible by 8, up to 256".
std::string HeadWordsText(std::string_view words);
// "H200 (SM90)", "the CPU", "this device".
std::string DeviceText(DeviceKind device, const std::optional<GpuSpec>& gpu);

}  // namespace haypile
