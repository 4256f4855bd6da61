#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"
#include "planner/trtllm_dtypes.h"

namespace haypile {

// What one pipeline stage of one rank keeps: bytes a token in the data pools, in the separate pools of block scales,
// and the fixed states of one request.
struct TrtllmCells {
  int64_t data = 0;
  int64_t scales = 0;   // NVFP4: one E4M3 byte for 16 elements
  int64_t indexer = 0;  // sparse attention's own rows
  int64_t state = 0;    // of one request, all state layers
  int layers = 0;       // that keep tokens
  int64_t elements = 0;
  bool latent = false;
  bool windows = false;  // window layers, planned as full: max_attention_window is not set by default

  int64_t token() const { return data + scales + indexer; }
};

// kInvalidArgument: elements of a layer do not fill NVFP4's blocks of 16. kUnsupported names a cache that is not
// understood.
Result<TrtllmCells> TrtllmCellsOfStage(const ModelGeometry& model, const std::vector<LayerGeometry>& stage,
                                       const TrtllmDtype& dtype, const PlanRequest& request);

}  // namespace haypile
