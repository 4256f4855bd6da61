#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "compare/request.h"
#include "report/compare_result.h"

namespace haypile {

// Where a comparison runs and what it tells while running.
struct CompareContext {
  std::string model_path;  // file or folder
  std::string state_path;  // where finished steps are kept for resuming; empty: nowhere
  std::string tool_version;
  std::string commit;  // may be empty
  int threads = 0;
  // Estimated work done of the total (token passes), and what is being done now.
  std::function<void(double done, double total, const std::string& what)> on_progress;
  // Hears the result so far after every step, for partial output.
  std::function<void(const CompareResult&)> on_step;
};

// Checks the request against the model's header alone, before weights are read: head dim, layers to skip, scales,
// lengths, budgets. Fills request.max_model_len.
Status CheckCompareRequest(const std::string& model_path, CompareRequest& request);

// Runs the comparison: capacity, speed, teacher-forced cost, recall, golden prompts, tasks, verdict. When the user
// stops it, the result has complete = false and every figure present is valid; the same request resumes.
Result<CompareResult> RunCompare(CompareRequest request, const CompareContext& context);

}  // namespace haypile
