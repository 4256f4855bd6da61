#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

// One line of a derivation: what is computed, the rule with names, the rule with numbers, and the outcome.
// e.g. {"block size", "align * ceil(state / (align * a))", "16 * ceil(3,207,168 / (16 * 1,152))", "2,784 tokens"}
struct DerivationStep {
  std::string what;
  std::string formula;
  std::string substituted;
  std::string value;
};

// Where the bytes of one rank's pool go; the shares add up to the pool's bytes.
struct ByteShare {
  std::string what;  // "full attention, 16 layers", "state padding", "floor of blocks", ...
  int64_t bytes = 0;
};

// The engine would not start with this request.
struct Refusal {
  std::string reason;  // the engine's own words where they are known
  std::optional<int64_t> estimated_max_model_len;
};

// What one engine will report for one KV dtype.
struct PoolPlan {
  EngineKind engine = EngineKind::kVllm;
  std::string kv_cache_dtype;           // as asked
  std::string resolved_kv_cache_dtype;  // after the engine's own rules ("auto" -> "bfloat16", "fp8" -> "fp8_ds_mla")
  std::optional<Refusal> refused;
  // Per rank. Bytes that one more token of context costs once the request is past every window: full attention and
  // MLA layers, block scales included. State layers and windows are in bytes_per_request.
  int64_t bytes_per_token = 0;
  int64_t bytes_per_request = 0;  // fixed bytes of one request: states and full windows
  int64_t pool_bytes = 0;         // bytes the engine may use
  int64_t used_bytes = 0;         // bytes it allocates
  int64_t block_size = 0;         // tokens of one block of the full-attention group (page size; cells: 1)
  int64_t num_blocks = 0;
  int64_t pool_tokens = 0;             // the number that the engine prints
  double max_concurrency = 0.0;        // the number that the engine prints or implies: requests of max_model_len
  int64_t max_model_len = 0;           // after the engine's own changes
  std::vector<std::string> log_lines;  // start-up lines to expect, word for word, without the logger's prefix
  std::vector<std::string> warnings;   // for the user, in whole sentences
  std::vector<DerivationStep> derivation;
  std::vector<ByteShare> shares;
};

// One function per engine. A request that the engine refuses at start is a PoolPlan with `refused` set; an error
// (kInvalidArgument, kUnsupported) means that the planner cannot tell, and says what it does not understand.
// `pool_bytes_per_rank` must not be empty (llama.cpp: it may be, the context size decides).
Result<PoolPlan> PlanVllmPool(const ModelGeometry& model, const PlanRequest& request);
Result<PoolPlan> PlanSglangPool(const ModelGeometry& model, const PlanRequest& request);
Result<PoolPlan> PlanTrtllmPool(const ModelGeometry& model, const PlanRequest& request);
Result<PoolPlan> PlanLlamacppPool(const ModelGeometry& model, const PlanRequest& request);
Result<PoolPlan> PlanHaypilePool(const ModelGeometry& model, const PlanRequest& request);
// The one of request.engine.
Result<PoolPlan> PlanPool(const ModelGeometry& model, const PlanRequest& request);

}  // namespace haypile
