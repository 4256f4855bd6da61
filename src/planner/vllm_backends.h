#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model_geometry.h"
#include "planner/plan_request.h"
#include "planner/vllm_dtypes.h"
#include "planner/vllm_versions.h"

namespace haypile {

// What sizes a pool depend on of an attention backend.
struct VllmBackend {
  std::string name;                // "FLASH_ATTN", ...
  std::vector<int> kernel_blocks;  // sizes in tokens that its kernels take, ascending
  bool multiples = false;          // kernel_blocks[0] and all its multiples
  bool exact = false;              // these sizes and no multiple of them
  int default_block = 16;          // what vLLM sets where the user gives no --block-size

  int SmallestKernelBlock() const { return kernel_blocks.front(); }
  // The largest kernel block of which `budget` bytes hold a page at `token_bytes`, else the smallest.
  int64_t LargestKernelBlockWithin(int64_t token_bytes, int64_t budget) const;
};

struct VllmBackendChoice {
  VllmBackend backend;
  VllmKvDtype dtype;    // after the backend's own rewriting ("fp8" -> "fp8_ds_mla")
  std::string refusal;  // not empty: vLLM stops with these words
  std::vector<std::string> log_lines;
  std::vector<std::string> warnings;
};

// The first backend in vLLM's order that serves this model, dtype and device (platforms/cuda.py, cpu.py). Where the
// compute capability is unknown, the plan is that of SM90 and refusals become warnings.
VllmBackendChoice ChooseVllmBackend(const ModelGeometry& model, const PlanRequest& request, const VllmKvDtype& dtype,
                                    const VllmRules& rules);

}  // namespace haypile
