#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

// How far a figure can be trusted.
enum class TermSource {
  kGiven,     // the user said so
  kComputed,  // follows from the model's files or the engine's arithmetic
  kDefault,   // the engine's default for a flag that was not given
  kAssumed,   // a rule of thumb: only a start of the engine tells
};
std::string TermSourceName(TermSource source);  // "given", "computed", "default", "assumed"

// One line of the account of a device's memory, per rank.
struct BudgetTerm {
  std::string name;   // "weights", "activations", ...
  int64_t bytes = 0;  // negative: taken away
  TermSource source = TermSource::kComputed;
  std::string note;  // the rule with its numbers
};

struct MemoryBudget {
  std::vector<BudgetTerm> terms;  // add up to pool_bytes
  int64_t pool_bytes = 0;         // of one rank; may be zero or negative: nothing is left
  int64_t weight_bytes = 0;       // of one rank
};

// The weights of a whole model and how they are known.
struct WeightFigure {
  int64_t bytes = 0;
  TermSource source = TermSource::kComputed;
  std::string note;
};

// The weights' bytes: `given`, or what the files measured, or parameters x format. `weights_dtype` is one of
// WeightDtypeNames() and overrides the model's own format; empty: the model's. Quantized formats leave the embeddings
// in 16 bits. kInvalidArgument: unknown dtype; kUnsupported: the model does not tell its parameters.
Result<WeightFigure> WeightBytes(const ModelGeometry& model, const std::string& weights_dtype,
                                 std::optional<int64_t> given);
std::string WeightDtypeNames();  // "bf16, fp16, fp8, ..." for messages

// Everything of a device's account besides the model.
struct BudgetRequest {
  EngineKind engine = EngineKind::kVllm;
  EngineVersion version;
  int64_t device_bytes = 0;           // memory of one device
  std::optional<double> utilization;  // the engine's own flag; its meaning differs by engine
  int tensor_parallel = 1;
  int pipeline_parallel = 1;
  int64_t max_num_batched_tokens = 0;     // 0: the engine's default
  int64_t max_num_seqs = 0;               // 0: the engine's default
  bool enforce_eager = false;             // no CUDA graphs
  std::optional<int64_t> overhead_bytes;  // the sum of all terms besides the weights, in place of the estimates
  WeightFigure weights;
  std::optional<WeightFigure> draft_weights;
};

// What one rank has left for its KV cache, by the engine's own arithmetic:
//   vLLM:          ceil(U x M) - weights - activations - non-torch - CUDA graphs (from 0.21)
//   SGLang:        F x (M - context) - weights
//   TensorRT-LLM:  F x (M - context - weights - activations)
//   llama.cpp:     M - weights - compute buffers
// kInvalidArgument for a utilization outside (0, 1].
Result<MemoryBudget> PlanBudget(const ModelGeometry& model, const BudgetRequest& request);

}  // namespace haypile
