#pragma once

#include <string>
#include <vector>

#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

enum class SglangStorage { kPlain, kFp8, kMxfp8, kFp4 };

// A KV dtype after SGLang's own rules.
struct SglangDtype {
  std::string name;        // "bfloat16", "fp8_e4m3", "nvfp4", ...
  std::string torch_name;  // as the log prints it: "torch.float8_e4m3fn"
  SglangStorage storage = SglangStorage::kPlain;
  int element_bytes = 2;               // that the pool's size is computed with, before FP4's corrections
  std::string refusal;                 // why the engine does not start; empty: it does
  std::vector<std::string> log_lines;  // printed while the dtype is settled
  std::vector<std::string> warnings;
};

// `asked` in SGLang's spelling; "auto" follows a ModelOpt checkpoint's FP8 and else the model's dtype.
SglangDtype ResolveSglangDtype(const ModelGeometry& model, const std::string& asked, const PlanRequest& request);

// From this version on the pool's log line names the dtype and fp4_e2m1 is refused (early 2026).
inline constexpr EngineVersion kSglangNewNames{0, 5, 10};

}  // namespace haypile
