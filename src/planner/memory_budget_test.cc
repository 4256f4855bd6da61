#include "planner/memory_budget.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

// Qwen3-32B: 32,762,123,264 parameters, two embeddings of 151,936 x 5,120.
ModelGeometry Qwen3_32B() {
  ModelGeometry model;
  model.name = "qwen3-32b";
  model.parameters = model.active_parameters = 32'762'123'264;
  model.vocabulary_size = 151936;
  model.hidden_size = 5120;
  return model;
}

BudgetRequest OneH200(const WeightFigure& weights) {
  BudgetRequest request;
  request.version = {0, 32, 0};
  request.device_bytes = 141'000'000'000;
  request.utilization = 0.92;
  request.overhead_bytes = 6'000'000'000;
  request.weights = weights;
  return request;
}

int64_t SumOf(const MemoryBudget& budget) {
  int64_t sum = 0;
  for (const BudgetTerm& term : budget.terms) sum += term.bytes;
  return sum;
}

// What one H200 leaves Qwen3-32B: 58.20 GB with BF16 weights (65.52 GB), 89.40 GB with FP8 ones (34.32 GB).
TEST(MemoryBudget, QwenOnOneH200) {
  const WeightFigure bf16 = *WeightBytes(Qwen3_32B(), "", std::nullopt);
  EXPECT_NEAR(static_cast<double>(bf16.bytes), 65.52e9, 5e6);
  const MemoryBudget plain = *PlanBudget(Qwen3_32B(), OneH200(bf16));
  EXPECT_NEAR(static_cast<double>(plain.pool_bytes), 58.20e9, 5e6);
  EXPECT_EQ(SumOf(plain), plain.pool_bytes);
  EXPECT_EQ(plain.pool_bytes / (262144LL * 32768), 6);
  EXPECT_EQ(plain.pool_bytes / (131072LL * 32768), 13);

  const WeightFigure fp8 = *WeightBytes(Qwen3_32B(), "fp8", std::nullopt);
  EXPECT_NEAR(static_cast<double>(fp8.bytes), 34.32e9, 5e6);
  EXPECT_NEAR(static_cast<double>(PlanBudget(Qwen3_32B(), OneH200(fp8))->pool_bytes), 89.40e9, 5e6);
}

TEST(MemoryBudget, WeightsPreferWhatTheUserAndTheFilesSay) {
  ModelGeometry model = Qwen3_32B();
  model.weight_bytes = 123;
  EXPECT_EQ(WeightBytes(model, "", std::nullopt)->bytes, 123);
  EXPECT_EQ(WeightBytes(model, "", 77)->bytes, 77);
  EXPECT_EQ(WeightBytes(model, "", 77)->source, TermSource::kGiven);
  EXPECT_GT(WeightBytes(model, "bf16", std::nullopt)->bytes, 65'000'000'000);
  EXPECT_EQ(WeightBytes(model, "fp7", std::nullopt).error().code(), ErrorCode::kInvalidArgument);
  model = Qwen3_32B();
  model.parameters = 0;
  EXPECT_EQ(WeightBytes(model, "", std::nullopt).error().code(), ErrorCode::kUnsupported);
  model = Qwen3_32B();
  model.tied_embeddings = true;  // one matrix in 16 bits instead of two
  EXPECT_NEAR(static_cast<double>(WeightBytes(model, "fp8", std::nullopt)->bytes), 34.32e9 - 151936.0 * 5120, 5e6);
}

TEST(MemoryBudget, EveryTermIsShownAndMarked) {
  BudgetRequest request = OneH200(*WeightBytes(Qwen3_32B(), "", std::nullopt));
  request.overhead_bytes.reset();
  request.utilization.reset();
  const MemoryBudget budget = *PlanBudget(Qwen3_32B(), request);
  ASSERT_EQ(budget.terms.size(), 5u);
  EXPECT_EQ(budget.terms[0].bytes, 129'720'000'000);
  EXPECT_EQ(budget.terms[0].source, TermSource::kDefault);
  EXPECT_EQ(budget.terms[1].source, TermSource::kComputed);
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(budget.terms[i].source, TermSource::kAssumed);
  EXPECT_EQ(SumOf(budget), budget.pool_bytes);

  request.version = {0, 19, 0};  // graphs are not counted, the default is 0.9
  const MemoryBudget old = *PlanBudget(Qwen3_32B(), request);
  EXPECT_EQ(old.terms.size(), 4u);
  EXPECT_EQ(old.terms[0].bytes, 126'900'000'000);
}

TEST(MemoryBudget, RanksShareTheWeights) {
  BudgetRequest request = OneH200({100, TermSource::kGiven, ""});
  request.tensor_parallel = 4;
  request.pipeline_parallel = 2;
  EXPECT_EQ(PlanBudget(Qwen3_32B(), request)->weight_bytes, 13);
  request.draft_weights = WeightFigure{40, TermSource::kGiven, ""};
  EXPECT_EQ(PlanBudget(Qwen3_32B(), request)->weight_bytes, 23);
}

TEST(MemoryBudget, OtherEnginesHaveTheirOwnArithmetic) {
  BudgetRequest request = OneH200({40'000'000'000, TermSource::kGiven, ""});
  request.utilization = 0.8;
  request.engine = EngineKind::kTrtllm;  // a share of what is free: 0.8 x (141 - 40 - 6)
  EXPECT_NEAR(static_cast<double>(PlanBudget(Qwen3_32B(), request)->pool_bytes), 76e9, 2.0);
  request.overhead_bytes.reset();
  request.engine = EngineKind::kSglang;  // 0.8 x free before loading, less the weights
  const MemoryBudget sglang = *PlanBudget(Qwen3_32B(), request);
  EXPECT_NEAR(static_cast<double>(sglang.pool_bytes), 0.8 * (141e9 - 410.0 * 1048576) - 40e9, 2.0);
  EXPECT_EQ(SumOf(sglang), sglang.pool_bytes);
}

TEST(MemoryBudget, RefusesUtilizationOutOfRange) {
  for (const double share : {0.0, -0.5, 1.01, 90.0}) {
    BudgetRequest request = OneH200({1, TermSource::kGiven, ""});
    request.utilization = share;
    for (const EngineKind engine : {EngineKind::kVllm, EngineKind::kSglang, EngineKind::kTrtllm}) {
      request.engine = engine;
      EXPECT_EQ(PlanBudget(Qwen3_32B(), request).error().code(), ErrorCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace haypile
