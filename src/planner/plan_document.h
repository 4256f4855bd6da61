#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "planner/engine_flags.h"
#include "planner/engine_support.h"
#include "planner/length_distribution.h"
#include "planner/memory_budget.h"
#include "planner/pool_plan.h"
#include "planner/pool_ratio.h"
#include "planner/roofline.h"

namespace haypile {

// Decode at the memory roofline, for one dtype.
struct RowRoofline {
  PassTime one_request;  // batch 1 at the planned context
  PassTime full_pool;    // as many requests as fit
  double full_pool_requests = 1.0;
  std::optional<double> pays_from_one_request;  // context from which it beats the 16-bit cache; empty: never
  std::optional<double> pays_from_full_pool;    // the same with a full pool of the 16-bit cache's requests
};

// One KV dtype.
struct PlanRow {
  PoolPlan pool;
  std::string bytes_from;  // where the bytes of a token come from: "64 layers x 8 KV heads x (128 + 128) x 8 bits"
  std::optional<double> element_bits;
  std::optional<double> requests_at_lengths;  // at the user's length distribution
  std::optional<PoolRatio> to_16_bit;         // against the engine's 16-bit cache
  std::optional<PoolRatio> to_8_bit;          // against its 8-bit one
  DtypeSupport support;
  EngineFlags flags;
  std::optional<RowRoofline> roofline;
};

// An answer of --solve, for one dtype.
struct PlanSolution {
  std::string question;  // "gpus", "context", "requests", "replicas"
  std::string kv_cache_dtype;
  std::optional<double> answer;                  // empty: no answer within the limits
  std::optional<double> answer_after_roll_back;  // replicas only: with the 16-bit cache
  std::string text;                              // a whole sentence
};

// Everything that `haypile plan` says.
struct PlanDocument {
  std::string tool_version;
  ModelGeometry model;
  PlanRequest request;  // with the pool's bytes; its kv_cache_dtype means nothing
  std::optional<GpuSpec> gpu;
  int gpu_count = 0;                   // 0: no device was named
  std::optional<MemoryBudget> budget;  // empty: the user gave the pool's bytes
  std::optional<LengthDistribution> lengths;
  std::optional<DrafterInput> drafter;
  bool accepted_tokens_assumed = false;
  std::vector<PlanRow> rows;
  std::vector<PlanSolution> solutions;
  std::vector<std::string> warnings;  // not of one dtype
};

// schema haypile.plan/1, docs/schemas/haypile.plan-1.schema.json.
Json ToJson(const PlanDocument& document);

// "48 gated_deltanet, 16 full attention (4 KV heads x 256)": the layers by kind, in order of appearance.
std::vector<std::string> LayerSummary(const ModelGeometry& model);

}  // namespace haypile
