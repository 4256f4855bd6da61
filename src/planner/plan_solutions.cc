#include "planner/plan_solutions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/number_text.h"
#include "planner/solve.h"

namespace haypile {
namespace {

constexpr int kMostGpus = 1024;

double Target(const PlanJob& job) { return job.target_requests.value_or(1.0); }

Result<PlanSolution> SolveGpus(const PlanJob& job, const std::string& dtype) {
  if (!job.gpu) return Error(ErrorCode::kInvalidArgument, "--solve gpus needs --gpu");
  const PlanForGpus plan = [&](int gpus) -> Result<PoolPlan> {
    PlanJob sized = job;
    sized.request.tensor_parallel = gpus;
    HAYPILE_TRY_ASSIGN(const MemoryBudget budget, BudgetOf(sized, gpus));
    return PlanDtype(sized, dtype, budget.pool_bytes);
  };
  HAYPILE_TRY_ASSIGN(const auto solution, LeastGpus(plan, Target(job), kMostGpus / job.request.pipeline_parallel));
  PlanSolution answer{"gpus", dtype, {}, {}, ""};
  if (!solution) {
    answer.text = fmt::format("{} devices do not hold {} request(s) at once.", kMostGpus, Target(job));
    return answer;
  }
  const int gpus = solution->gpus * job.request.pipeline_parallel;
  answer.answer = gpus;
  answer.text =
      fmt::format("{} x {} (tensor parallel {}) hold {:.2f} requests of {} tokens; {} asked.", gpus, job.gpu->name,
                  solution->gpus, solution->plan.max_concurrency, Grouped(solution->plan.max_model_len), Target(job));
  return answer;
}

Result<PlanSolution> SolveContext(const PlanJob& job, const PlanRow& row) {
  const int64_t longest = job.model.max_positions > 0 ? job.model.max_positions : row.pool.max_model_len;
  const PlanForContext plan = [&](int64_t tokens) {
    return PlanDtype(job, row.pool.kv_cache_dtype, std::nullopt, tokens);
  };
  HAYPILE_TRY_ASSIGN(const auto context, LargestContext(plan, Target(job), longest));
  PlanSolution answer{"context", row.pool.kv_cache_dtype, {}, {}, ""};
  if (!context) {
    answer.text = fmt::format("No context length holds {} request(s) at once.", Target(job));
    return answer;
  }
  answer.answer = static_cast<double>(*context);
  answer.text = fmt::format("{} tokens for each of {} request(s) at once{}.", Grouped(*context), Target(job),
                            *context == longest ? ", the model's own limit" : "");
  return answer;
}

PlanSolution SolveRequests(const PlanRow& row) {
  const double fit = row.requests_at_lengths.value_or(row.pool.max_concurrency);
  PlanSolution answer{"requests", row.pool.kv_cache_dtype, std::floor(fit + 1e-9), {}, ""};
  answer.text = fmt::format("{} requests at once{}.", Grouped(std::llround(*answer.answer)),
                            row.requests_at_lengths ? " at the given lengths"
                                                    : fmt::format(" of {} tokens", Grouped(row.pool.max_model_len)));
  return answer;
}

Result<PlanSolution> SolveReplicas(const PlanJob& job, const PlanRow& row) {
  if (!job.load_requests) return Error(ErrorCode::kInvalidArgument, "--solve replicas needs --load");
  const double fit = row.requests_at_lengths.value_or(row.pool.max_concurrency);
  PlanSolution answer{"replicas", row.pool.kv_cache_dtype, {}, {}, ""};
  answer.answer = static_cast<double>(Replicas(*job.load_requests, fit));
  answer.text =
      fmt::format("{} replicas carry {} requests in service ({:.2f} each)", *answer.answer, *job.load_requests, fit);
  if (row.to_16_bit && row.to_16_bit->tokens > 0.0) {
    // The 16-bit pool holds fewer requests by the same factor as tokens when every request has the planned length.
    double rolled_back = fit / row.to_16_bit->tokens;
    if (row.requests_at_lengths) {
      PlanJob plain = job;
      plain.lengths.reset();
      const std::string base = SixteenBitDtype(job.request.engine);
      const auto at_lengths = ConcurrentRequests(*job.lengths, [&](int64_t tokens) -> std::optional<double> {
        const auto plan = PlanDtype(plain, base, std::nullopt, std::min(tokens, row.pool.max_model_len));
        return plan.ok() && !plan->refused ? std::optional<double>(plan->max_concurrency) : std::nullopt;
      });
      rolled_back = at_lengths.value_or(rolled_back);
    }
    answer.answer_after_roll_back = static_cast<double>(Replicas(*job.load_requests, rolled_back));
    answer.text += fmt::format("; {} after a roll-back to {} ({:.2f} each)", *answer.answer_after_roll_back,
                               SixteenBitDtype(job.request.engine), rolled_back);
  }
  answer.text += ".";
  return answer;
}

Result<PlanSolution> Solve(const PlanJob& job, const PlanRow& row, const std::string& question) {
  if (question == "gpus") return SolveGpus(job, row.pool.kv_cache_dtype);
  if (question == "context") return SolveContext(job, row);
  if (question == "replicas") return SolveReplicas(job, row);
  return SolveRequests(row);
}

}  // namespace

Result<std::vector<PlanSolution>> SolvePlan(const PlanJob& job, const std::vector<PlanRow>& rows) {
  std::vector<PlanSolution> solutions;
  const std::vector<std::string> known = SolveQuestions();
  for (const std::string& question : job.questions) {
    if (std::find(known.begin(), known.end(), question) == known.end()) {
      return Error(ErrorCode::kInvalidArgument,
                   "--solve: unknown question '" + question + "'; known: gpus, context, requests, replicas");
    }
    for (const PlanRow& row : rows) {
      const bool needs_a_pool = question == "requests" || question == "replicas";
      // A refusal for length alone (it has an estimate) may be solved by more devices or a shorter context.
      if (row.pool.refused && (needs_a_pool || !row.pool.refused->estimated_max_model_len)) {
        solutions.push_back({question, row.pool.kv_cache_dtype, {}, {}, "refused by the engine, see below."});
        continue;
      }
      HAYPILE_TRY_ASSIGN(PlanSolution solution, Solve(job, row, question));
      solutions.push_back(std::move(solution));
    }
  }
  return solutions;
}

}  // namespace haypile
