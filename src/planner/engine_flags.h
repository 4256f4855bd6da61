#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

// What to type for a plan, and what takes it back.
struct EngineFlags {
  std::vector<std::string> start;      // command lines or lines of a settings file, in order
  std::vector<std::string> roll_back;  // the flags that bring the 16-bit cache back, or why no flag does
};

// The memory flag that goes with a plan: what the user gave, of the two.
struct MemoryFlag {
  std::optional<double> utilization;  // under the engine's own name
  std::optional<int64_t> pool_bytes;  // of one rank
};

// Flags in the engine's own spelling for `request` (its kv_cache_dtype included). The rollback names the dtype where
// the checkpoint itself asks for a quantized cache: there "auto" would keep it.
EngineFlags FlagsOf(const ModelGeometry& model, const PlanRequest& request, const MemoryFlag& memory = {});

}  // namespace haypile
