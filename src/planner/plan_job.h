#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/gpu_catalogue.h"
#include "planner/length_distribution.h"
#include "planner/plan_document.h"

namespace haypile {

// What a user asks of a plan: a model, an engine's flags, memory, and which dtypes to compare. As a library call:
//
//   PlanJob job;
//   job.model = CatalogueModel("qwen3-32b").value();
//   job.request.version = NewestKnownVersion(job.request.engine);
//   job.gpu = GpuCatalogue().Find("H200").value();
//   job.utilization = 0.92;
//   Result<PlanDocument> document = RunPlan(job);
struct PlanJob {
  ModelGeometry model;
  PlanRequest request;              // kv_cache_dtype is ignored; pool_bytes_per_rank may be empty when `gpu` is set
  std::vector<std::string> dtypes;  // to compare, in the engine's spelling; empty: DefaultDtypes
  std::optional<GpuSpec> gpu;
  int gpu_count = 1;
  // Memory, where the pool's bytes are not given.
  std::optional<double> utilization;
  std::string weights_dtype;
  std::optional<int64_t> weights_bytes;
  std::optional<int64_t> overhead_bytes;
  bool enforce_eager = false;
  // Load.
  std::optional<LengthDistribution> lengths;
  std::optional<double> accepted_tokens;  // per pass with a drafter; empty: assumed
  // --solve
  std::vector<std::string> questions;     // of SolveQuestions()
  std::optional<double> target_requests;  // held at once: of "gpus" and "context"; empty: 1
  std::optional<double> load_requests;    // in service: of "replicas"
  std::string tool_version;
};

std::vector<std::string> SolveQuestions();  // "gpus", "context", "requests", "replicas"

// Plans every dtype. A dtype that the planner cannot plan is a row with `refused` when several are asked, and the error
// when it is the only one; kInvalidArgument and kMalformed are always errors. kOutOfBudget: no memory is left for the
// pool.
Result<PlanDocument> RunPlan(const PlanJob& job);

// The budget of one rank with `tensor_parallel` ranks to a stage; needs job.gpu.
Result<MemoryBudget> BudgetOf(const PlanJob& job, int tensor_parallel);
// The plan of one dtype. `pool_bytes` replaces the request's; `max_model_len` 0: the request's.
Result<PoolPlan> PlanDtype(const PlanJob& job, const std::string& dtype, std::optional<int64_t> pool_bytes,
                           int64_t max_model_len = 0);

}  // namespace haypile
