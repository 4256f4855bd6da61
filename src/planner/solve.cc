#include "planner/solve.h"

#include <cmath>

namespace haypile {
namespace {

bool Holds(const PoolPlan& plan, double requests) { return !plan.refused && plan.max_concurrency >= requests; }

}  // namespace

Result<std::optional<GpuSolution>> LeastGpus(const PlanForGpus& plan, double requests, int most) {
  for (int gpus = 1; gpus <= most; gpus *= 2) {
    auto planned = plan(gpus);
    if (!planned.ok()) {
      if (planned.error().code() == ErrorCode::kOutOfBudget) continue;
      return std::move(planned).error();
    }
    if (Holds(*planned, requests)) return std::optional<GpuSolution>(GpuSolution{gpus, std::move(planned).value()});
  }
  return std::optional<GpuSolution>();
}

Result<std::optional<int64_t>> LargestContext(const PlanForContext& plan, double requests, int64_t longest) {
  HAYPILE_TRY_ASSIGN(const PoolPlan at_longest, plan(longest));
  if (Holds(at_longest, requests)) return std::optional<int64_t>(longest);
  int64_t fits = 0;
  int64_t fails = longest;
  while (fails - fits > 1) {
    const int64_t middle = fits + (fails - fits) / 2;
    HAYPILE_TRY_ASSIGN(const PoolPlan at_middle, plan(middle));
    (Holds(at_middle, requests) ? fits : fails) = middle;
  }
  return fits == 0 ? std::optional<int64_t>() : std::optional<int64_t>(fits);
}

int64_t Replicas(double load, double per_replica) {
  if (!(per_replica > 0.0)) return 0;
  return static_cast<int64_t>(std::ceil(load / per_replica - 1e-9));
}

}  // namespace haypile
