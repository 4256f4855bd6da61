#include "planner/solve.h"

#include <gtest/gtest.h>

#include <vector>

namespace haypile {
namespace {

PoolPlan Pool(double tokens, int64_t length) {
  PoolPlan plan;
  plan.max_model_len = length;
  plan.pool_tokens = static_cast<int64_t>(tokens);
  plan.max_concurrency = tokens / static_cast<double>(length);
  if (plan.max_concurrency < 1.0) plan.refused = Refusal{"too long", {}};
  return plan;
}

TEST(Solve, LeastGpusPassesOverSizesThatDoNotFit) {
  std::vector<int> asked;
  const PlanForGpus plan = [&](int gpus) -> Result<PoolPlan> {
    asked.push_back(gpus);
    if (gpus < 2) return Error(ErrorCode::kOutOfBudget, "weights do not fit");
    return Pool(40000.0 * (gpus - 1), 32768);
  };
  const auto solution = LeastGpus(plan, 6.0, 64);
  ASSERT_TRUE(solution.ok() && solution->has_value());
  EXPECT_EQ((*solution)->gpus, 8);  // 4: 3.7 requests; 8: 8.5
  EXPECT_EQ(asked, (std::vector<int>{1, 2, 4, 8}));
  EXPECT_FALSE(LeastGpus(plan, 1000.0, 64)->has_value());
  const PlanForGpus broken = [](int) -> Result<PoolPlan> { return Error(ErrorCode::kUnsupported, "unknown"); };
  EXPECT_EQ(LeastGpus(broken, 1.0, 8).error().code(), ErrorCode::kUnsupported);
}

TEST(Solve, LargestContextIsTheLastThatHolds) {
  const PlanForContext plan = [](int64_t length) -> Result<PoolPlan> { return Pool(100000.0, length); };
  EXPECT_EQ(**LargestContext(plan, 1.0, 131072), 100000);
  EXPECT_EQ(**LargestContext(plan, 3.0, 131072), 33333);
  EXPECT_EQ(**LargestContext(plan, 3.0, 32768), 32768);
  EXPECT_FALSE(LargestContext(plan, 200000.0, 131072)->has_value());
}

TEST(Solve, ReplicasOfALoad) {
  EXPECT_EQ(Replicas(100, 13.54), 8);
  EXPECT_EQ(Replicas(100, 6.77), 15);
  EXPECT_EQ(Replicas(12, 4.0), 3);
  EXPECT_EQ(Replicas(12, 0.0), 0);
}

}  // namespace
}  // namespace haypile
