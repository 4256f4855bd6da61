#include "planner/pool_ratio.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

// The 27B hybrid in vLLM: 16 attention layers, 48 states of 3,207,168 bytes twice per request, 98,304 tokens.
PoolPlan Hybrid(const char* dtype, int64_t bytes_per_token, int64_t block, int64_t tokens) {
  PoolPlan plan;
  plan.kv_cache_dtype = dtype;
  plan.bytes_per_token = bytes_per_token;
  plan.bytes_per_request = 2 * 48 * 3'207'168LL;
  plan.block_size = block;
  plan.pool_tokens = tokens;
  return plan;
}

TEST(PoolRatio, StatesAndBlocksTakeTheHybridFrom178To164) {
  const PoolPlan fp8 = Hybrid("fp8", 32'768, 1568, 235'074), nvfp4 = Hybrid("nvfp4", 18'432, 2784, 386'194);
  const PoolRatio ratio = ComparePools(fp8, nvfp4, 8.0, 4.5, 98'304);
  EXPECT_NEAR(*ratio.theory, 1.778, 1e-3);
  EXPECT_NEAR(ratio.bytes_per_token, 1.778, 1e-3);
  EXPECT_NEAR(ratio.with_fixed_bytes, 1.665, 1e-3);
  EXPECT_NEAR(ratio.tokens, 1.643, 1e-3);
  EXPECT_NE(ratio.reason.find("307,888,128 bytes of states and windows"), std::string::npos) << ratio.reason;
  EXPECT_NE(ratio.reason.find("2,784 tokens against 1,568"), std::string::npos) << ratio.reason;
}

TEST(PoolRatio, AWorkspaceShowsInTheBytesOfAToken) {
  PoolPlan fp8 = Hybrid("fp8_e4m3", 16'384, 1, 1'600'000), nvfp4 = Hybrid("nvfp4", 10'240, 1, 2'560'000);
  fp8.bytes_per_request = nvfp4.bytes_per_request = 0;
  const PoolRatio ratio = ComparePools(fp8, nvfp4, 8.0, 4.5, 98'304);
  EXPECT_EQ(ratio.reason, "The formats promise 1.78, but a token takes 10,240 bytes against 16,384: 1.60.");
}

TEST(PoolRatio, StatesInAPoolOfTheirOwnExplainNothing) {
  const PoolPlan fp8 = Hybrid("fp8_e4m3", 16'384, 1, 1'600'000), nvfp4 = Hybrid("nvfp4", 10'240, 1, 2'560'000);
  const PoolRatio ratio = ComparePools(fp8, nvfp4, 8.0, 4.5, 98'304);
  EXPECT_EQ(ratio.reason, "The formats promise 1.78, but a token takes 10,240 bytes against 16,384: 1.60.");
}

TEST(PoolRatio, NothingToSayWhereTheyAgree) {
  PoolPlan bf16 = Hybrid("auto", 262'144, 16, 65'536), fp8 = Hybrid("fp8", 131'072, 16, 131'072);
  bf16.bytes_per_request = fp8.bytes_per_request = 0;
  EXPECT_EQ(ComparePools(bf16, fp8, 16.0, 8.0, 32'768).reason, "");
  EXPECT_EQ(ComparePools(bf16, fp8, {}, {}, 32'768).reason, "");
}

}  // namespace
}  // namespace haypile
