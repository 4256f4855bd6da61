#pragma once

#include <string>
#include <vector>

#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

enum class TrtllmStorage { kPlain, kFp8, kNvfp4 };

// kv_cache_config.dtype after TensorRT-LLM's own rules.
struct TrtllmDtype {
  std::string name;  // "bfloat16", "fp8", "nvfp4"
  TrtllmStorage storage = TrtllmStorage::kPlain;
  int element_bytes = 2;  // of kPlain and kFp8
  std::string refusal;    // why the engine does not start; empty: it does
  std::vector<std::string> log_lines;
  std::vector<std::string> warnings;
};

TrtllmDtype ResolveTrtllmDtype(const ModelGeometry& model, const PlanRequest& request);

}  // namespace haypile
