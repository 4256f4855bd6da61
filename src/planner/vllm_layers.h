#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/vllm_setup.h"

namespace haypile {

// One cache that registers with vLLM, and where it lives.
struct VllmLayer {
  VllmSpec spec;
  int decoder_layer = 0;
  int stage = 0;  // of the pipeline
  bool draft = false;
  std::string label;  // for shares: "full attention", "full attention at bfloat16 (skipped)", "drafter, ..."
};

// Bytes of one recurrent state on one rank. kUnsupported names a state whose shape is unknown; a shape that --tp does
// not divide leaves plan.refused set.
Result<int64_t> VllmStateBytes(const StateShape& state, const VllmSetup& setup, const PlanRequest& request,
                               PoolPlan& plan);

// The layers' specs in the order in which they register, block sizes aligned as vLLM aligns them. Changes
// setup.block_size; appends log lines, derivation steps and warnings; may leave plan.refused set.
Result<std::vector<VllmLayer>> BuildVllmLayers(const ModelGeometry& model, const PlanRequest& request, VllmSetup& setup,
                                               PoolPlan& plan);

}  // namespace haypile
