#include "planner/roofline.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

RooflineInput Llama8B(double bandwidth, int sm, double bits) {
  RooflineInput input;
  input.bandwidth_bytes_per_second = bandwidth;
  input.weight_bytes = 16.06e9;
  input.kv_bytes_per_token = 131072.0 * bits / 16.0;
  input.kv_bits = bits;
  input.kv_layers = 32;
  input.sm = sm;
  return input;
}

// Published fits of inter-token latency over context: H100 slopes 4.37e-5 and 2.37e-5 ms a token, break-even about
// 7,000 tokens; B200 about 4,000.
TEST(Roofline, PublishedBreakEvenOfFp8) {
  const RooflineInput bf16 = Llama8B(3.35e12, 90, 16), fp8 = Llama8B(3.35e12, 90, 8);
  const auto slope_ms = [](const RooflineInput& input) {
    return 1e3 * (DecodePass(input, 1, 1001).total_seconds - DecodePass(input, 1, 1).total_seconds) / 1000;
  };
  EXPECT_NEAR(slope_ms(bf16), 4.37e-5, 0.05e-5);
  EXPECT_NEAR(slope_ms(fp8), 2.37e-5, 0.03e-5);
  EXPECT_NEAR(*BreakEvenContext(bf16, fp8, 1), 7000, 200);
  EXPECT_NEAR(*BreakEvenContext(Llama8B(8e12, 100, 16), Llama8B(8e12, 100, 8), 1), 4000, 250);
  // Eight requests read eight caches: an eighth of the context pays.
  EXPECT_NEAR(*BreakEvenContext(bf16, fp8, 8), 7000.0 / 8, 30);
  EXPECT_FALSE(BreakEvenContext(fp8, bf16, 1).has_value() && *BreakEvenContext(fp8, bf16, 1) > 0);
}

TEST(Roofline, BreakEvenIsWhereTheTimesMeet) {
  const RooflineInput fp8 = Llama8B(3.35e12, 90, 8), fp4 = Llama8B(3.35e12, 90, 4.5), bf16 = Llama8B(3.35e12, 90, 16);
  const double context = *BreakEvenContext(bf16, fp4, 4);
  EXPECT_NEAR(DecodePass(bf16, 4, context).total_seconds, DecodePass(fp4, 4, context).total_seconds, 1e-9);
  EXPECT_EQ(*BreakEvenContext(fp8, fp4, 1), 0.0);  // the same fixed cost
}

TEST(Roofline, EqualWeightAndKvTime) {
  const RooflineInput bf16 = Llama8B(3.35e12, 90, 16);
  const PassTime pass = DecodePass(bf16, 2, ContextOfEqualWeightAndKvTime(bf16, 2));
  EXPECT_NEAR(pass.weight_seconds, pass.kv_seconds, 1e-9);
}

TEST(Roofline, ExpertsOfABatch) {
  RooflineInput moe = Llama8B(3.35e12, 90, 16);
  moe.active_share = 0.1;
  EXPECT_NEAR(WeightBytesRead(moe, 1), 1.606e9, 1.0);
  EXPECT_NEAR(WeightBytesRead(moe, 2), 16.06e9 * 0.19, 1.0);
  EXPECT_GT(WeightBytesRead(moe, 64), 16.0e9);
  EXPECT_DOUBLE_EQ(WeightBytesRead(Llama8B(3.35e12, 90, 16), 7), 16.06e9);
}

// Two 128 GB boxes at 273 GB/s, a 27B hybrid with NVFP4 weights, tensor parallel 2: docs/plan.md works this example.
// A rank reads 8.3 GB of weights a pass (30 ms), and 16,384 bytes (FP8) or 9,216 bytes (NVFP4) a token of context.
TEST(Roofline, DrafterWithFp8BeatsFp4WithoutOneOnAWeightBoundPair) {
  RooflineInput fp8;
  fp8.bandwidth_bytes_per_second = 273e9;
  fp8.weight_bytes = 8.3e9;
  fp8.kv_bytes_per_token = 16384;
  fp8.kv_bits = 8;
  fp8.kv_layers = 16;
  fp8.sm = 121;
  RooflineInput fp4 = fp8;
  fp4.kv_bytes_per_token = 9216;
  fp4.kv_bits = 4.5;
  const DrafterInput drafter{3, 2.3, 0.2e9};
  for (const double context : {0.0, 8192.0, 32768.0, 131072.0, 262144.0}) {
    const double with_drafter = DecodePass(fp8, 1, context, drafter).tokens_per_second;
    const double without = DecodePass(fp4, 1, context).tokens_per_second;
    EXPECT_GT(with_drafter, without * 1.5) << context;
    EXPECT_LT(without / DecodePass(fp8, 1, context).tokens_per_second, 16384.0 / 9216) << context;
  }
}

}  // namespace
}  // namespace haypile
