#include "compare/capacity.h"

#include <gtest/gtest.h>

#include "spec/smollm2_spec_test.h"

namespace haypile {
namespace {

CompareRequest Request(const std::string& dtypes) {
  CompareRequest request;
  request.dtypes = ParseDtypeList(dtypes).value();
  request.max_model_len = 4096;
  return request;
}

TEST(PlanCapacity, RatiosAndTheReasonForTheGap) {
  const CompareRequest request = Request("bf16,fp8,nvfp4");
  const auto lanes = MakeLanes(SmolLm2Spec(), request).value();
  const auto runs = PlanCapacity(SmolLm2Spec(), request, lanes).value();
  EXPECT_EQ(runs[0].pool_tokens, 23296);
  EXPECT_EQ(runs[1].pool_tokens, 46592);
  EXPECT_EQ(runs[2].pool_tokens, 82848);
  EXPECT_GE(runs[2].ratio_to_baseline, 3.5);
  EXPECT_DOUBLE_EQ(runs[2].ratio_in_theory, 16 / 4.5);
  ASSERT_TRUE(runs[2].gap_reason.has_value());
  EXPECT_NE(runs[2].gap_reason->find("whole pages"), std::string::npos);
  EXPECT_FALSE(runs[1].gap_reason.has_value());
}

TEST(PlanCapacity, SkippedLayersExplainTheGap) {
  CompareRequest request = Request("bf16,nvfp4");
  request.skip_layers = "0,29";
  const auto lanes = MakeLanes(SmolLm2Spec(), request).value();
  const auto runs = PlanCapacity(SmolLm2Spec(), request, lanes).value();
  EXPECT_EQ(runs[1].bytes_per_token, 2 * 768 + 28 * 216);
  EXPECT_NE(runs[1].gap_reason->find("2 of 30 layers stay in bf16"), std::string::npos);
}

TEST(PlanCapacity, APoolTooSmallNamesTheDtype) {
  CompareRequest request = Request("bf16,nvfp4");
  request.kv_cache_memory_bytes = 1 << 20;
  const auto lanes = MakeLanes(SmolLm2Spec(), request).value();
  const auto runs = PlanCapacity(SmolLm2Spec(), request, lanes);
  ASSERT_FALSE(runs.ok());
  EXPECT_EQ(runs.error().code(), ErrorCode::kOutOfBudget);
  EXPECT_NE(runs.error().message().find("bf16"), std::string::npos);
}

}  // namespace
}  // namespace haypile
