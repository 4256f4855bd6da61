#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "planner/pool_plan.h"

namespace haypile {

// Plans one size of a deployment; the solvers below search over it. An error ends the search.
using PlanForGpus = std::function<Result<PoolPlan>(int gpus)>;
using PlanForContext = std::function<Result<PoolPlan>(int64_t max_model_len)>;

struct GpuSolution {
  int gpus = 0;
  PoolPlan plan;
};

// The least number of devices, among 1, 2, 4, 8, ... up to `most`, that starts and holds `requests` requests of
// max_model_len at once; empty when `most` do not. A size that runs out of memory (kOutOfBudget) is passed over.
Result<std::optional<GpuSolution>> LeastGpus(const PlanForGpus& plan, double requests, int most);

// The largest max_model_len in [1, longest] at which the engine starts and holds `requests` requests at once; empty
// when even one token does not fit.
Result<std::optional<int64_t>> LargestContext(const PlanForContext& plan, double requests, int64_t longest);

// Replicas for `load` requests in service when one replica holds `per_replica` of them at once: ceil(load /
// per_replica). 0 when a replica holds none.
int64_t Replicas(double load, double per_replica);

}  // namespace haypile
