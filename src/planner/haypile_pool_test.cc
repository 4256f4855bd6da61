#include <gtest/gtest.h>

#include <numeric>

#include "planner/known_geometry_test.h"
#include "planner/pool_plan.h"
#include "spec/kv_pool_plan.h"

namespace haypile {
namespace {

PlanRequest Request(const std::string& dtype, int64_t budget, int64_t max_len) {
  PlanRequest request;
  request.engine = EngineKind::kHaypile;
  request.kv_cache_dtype = dtype;
  request.pool_bytes_per_rank = {budget};
  request.max_model_len = max_len;
  return request;
}

TEST(HaypilePool, CountsPagesOfFullLayers) {
  const PoolPlan plan = PlanHaypilePool(SmolLm135m(), Request("nvfp4", 40 << 20, 4096)).value();
  EXPECT_EQ(plan.bytes_per_token, 30 * 3 * 2 * (32 + 4));
  EXPECT_EQ(plan.num_blocks, (40 << 20) / (16 * 6480));
  EXPECT_EQ(plan.pool_tokens, plan.num_blocks * 16);
  EXPECT_DOUBLE_EQ(plan.max_concurrency, plan.num_blocks / 256.0);
  EXPECT_EQ(plan.used_bytes, plan.num_blocks * 16 * 6480);
}

TEST(HaypilePool, SharesAddUpToThePool) {
  for (const int64_t budget : {int64_t{20} << 20, int64_t{33'333'333}}) {
    const PoolPlan plan = PlanHaypilePool(Gemma270m(), Request("fp8_e4m3/nvfp4", budget, 2048)).value();
    const int64_t sum = std::accumulate(plan.shares.begin(), plan.shares.end(), int64_t{0},
                                        [](int64_t total, const ByteShare& share) { return total + share.bytes; });
    EXPECT_EQ(sum, budget);
    EXPECT_EQ(plan.resolved_kv_cache_dtype, "fp8_e4m3/nvfp4");
    EXPECT_EQ(plan.bytes_per_request, 65 * 16 * 15 * (256 + 144));  // ceil((511 + 512) / 16) + 1 pages, 15 layers
    EXPECT_FALSE(plan.derivation.empty());
  }
}

TEST(HaypilePool, KeepsSkippedLayersInBf16) {
  PlanRequest request = Request("nvfp4", 10 << 20, 1024);
  request.skip_layers = {"0", "29"};
  EXPECT_EQ(PlanHaypilePool(SmolLm135m(), request).value().bytes_per_token, 28 * 216 + 2 * 768);
  request.skip_layers = {"30"};
  EXPECT_EQ(PlanHaypilePool(SmolLm135m(), request).error().code(), ErrorCode::kInvalidArgument);
}

TEST(HaypilePool, RefusesWhatTheEngineRefuses) {
  const PoolPlan small = PlanHaypilePool(SmolLm135m(), Request("bf16", 23040 * 1000, 4096)).value();
  ASSERT_TRUE(small.refused.has_value());
  EXPECT_EQ(small.refused->estimated_max_model_len, 992);  // 62 pages of 16
  EXPECT_EQ(PlanHaypilePool(SmolLm135m(), Request("bf16", 23040 * 1000, 992)).value().pool_tokens, 992);
  EXPECT_TRUE(PlanHaypilePool(SmolLm135m(), Request("bf16", 1 << 30, 8193)).value().refused.has_value());
  EXPECT_NE(PlanHaypilePool(Hybrid27b(), Request("bf16", 1 << 30, 1024)).value().refused->reason.find("qwen3_5"),
            std::string::npos);
}

TEST(HaypilePool, NamesWrongFlags) {
  EXPECT_EQ(PlanHaypilePool(SmolLm135m(), Request("q3_k", 1 << 20, 64)).error().code(), ErrorCode::kInvalidArgument);
  PlanRequest request = Request("bf16", 1 << 24, 64);
  request.block_size = 24;
  EXPECT_EQ(PlanHaypilePool(SmolLm135m(), request).error().code(), ErrorCode::kInvalidArgument);
  request.block_size.reset();
  request.pool_bytes_per_rank.clear();
  EXPECT_EQ(PlanHaypilePool(SmolLm135m(), request).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace haypile
