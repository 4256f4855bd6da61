#include "kvcache/kv_cache.h"

#include <gtest/gtest.h>

#include "spec/smollm2_spec_test.h"

namespace haypile {
namespace {

ModelSpec Gemma() {
  ModelSpec model;
  model.query_heads = 4;
  model.kv_heads = 1;
  model.head_dim = 256;
  model.layers.resize(18);
  for (size_t i = 0; i < 18; ++i) model.layers[i].window = i % 6 == 5 ? 0 : 512;
  return model;
}

KvCacheConfig Config(const ModelSpec& model, const std::string& dtype, int64_t budget_bytes, int64_t max_len) {
  KvCacheConfig config;
  config.geometry = MakeKvGeometry(model, ParseKvDtype(dtype).value()).value();
  config.budget_bytes = budget_bytes;
  config.max_model_len = max_len;
  return config;
}

TEST(KvCache, AllocatesWhatTheGeometrySaysForEveryFormatAndBothModels) {
  for (const ModelSpec& model : {SmolLm2Spec(), Gemma()}) {
    for (const auto& k : AllKvFormats()) {
      for (const auto& v : AllKvFormats()) {
        const std::string dtype = std::string(k.name) + "/" + std::string(v.name);
        const auto config = Config(model, dtype, 8 << 20, 256);
        const auto cache = KvCache::Create(config).value();
        const KvPoolPlan& plan = cache->plan();
        int64_t expected = 0;
        for (const auto& layer : config.geometry.layers) {
          expected += (layer.window > 0 ? plan.sliding_pages : plan.full_pages) * 16 * layer.BytesPerToken();
          EXPECT_EQ(cache->LayerView(static_cast<int>(&layer - config.geometry.layers.data())).layout.tile_bytes,
                    16 * layer.BytesPerToken());
        }
        EXPECT_EQ(cache->allocated_bytes(), expected) << dtype;
        EXPECT_EQ(plan.TotalBytes(), expected) << dtype;
        EXPECT_LE(plan.TotalBytes(), config.budget_bytes) << dtype;
        EXPECT_GT(plan.TotalBytes(), config.budget_bytes - plan.full_page_bytes - plan.sliding_page_bytes) << dtype;
      }
    }
  }
}

TEST(KvCache, Nvfp4HoldsAlmostTheTheoreticalRatio) {
  const int64_t budget = 256 << 20;
  const auto bf16 = PlanKvPool(Config(SmolLm2Spec(), "bf16", budget, 4096)).value();
  const auto nvfp4 = PlanKvPool(Config(SmolLm2Spec(), "nvfp4", budget, 4096)).value();
  EXPECT_EQ(bf16.pool_tokens, budget / (23040 * 16) * 16);
  EXPECT_GE(static_cast<double>(nvfp4.pool_tokens) / static_cast<double>(bf16.pool_tokens), 3.5);
}

TEST(KvCache, SlidingLayersKeepOnlyTheirWindow) {
  auto config = Config(Gemma(), "fp8", 0, 16384);
  config.pool_tokens = 16384;
  config.chunk_tokens = 64;
  const auto cache = KvCache::Create(config).value();
  const SequenceId id = cache->AddSequence();
  for (int chunk = 0; chunk < 256; ++chunk) {
    ASSERT_TRUE(cache->Extend(id, 64).ok());
    EXPECT_LE(cache->pages_held(id, true), (511 + 64) / 16 + 1);
  }
  EXPECT_EQ(cache->pages_held(id, false), 1024);
  EXPECT_EQ(cache->Length(id), 16384);
  cache->RemoveSequence(id);
  EXPECT_EQ(cache->free_full_pages(), cache->plan().full_pages);
  EXPECT_EQ(cache->free_sliding_pages(), cache->plan().sliding_pages);
}

TEST(KvCache, RunningOutChangesNothing) {
  auto config = Config(SmolLm2Spec(), "bf16", 0, 64);
  config.pool_tokens = 64;
  const auto cache = KvCache::Create(config).value();
  const SequenceId a = cache->AddSequence();
  const SequenceId b = cache->AddSequence();
  ASSERT_TRUE(cache->Extend(a, 40).ok());
  const auto refused = cache->Extend(b, 17);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kOutOfBudget);
  EXPECT_EQ(cache->Length(b), 0);
  EXPECT_TRUE(cache->Extend(b, 16).ok());
  EXPECT_FALSE(cache->Extend(a, 9).ok());
  EXPECT_TRUE(cache->Extend(a, 8).ok());
  cache->RemoveSequence(b);
  EXPECT_TRUE(cache->Extend(a, 16).ok());
}

TEST(KvCache, ACloneHasTheSameBytesInPagesOfItsOwn) {
  auto config = Config(Gemma(), "fp8", 0, 4096);
  config.pool_tokens = 4096;
  config.sequences = 2;
  const auto cache = KvCache::Create(config).value();
  const SequenceId a = cache->AddSequence();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(cache->Extend(a, 500).ok());
  for (int layer = 0; layer < 18; ++layer) {
    const PagedKvView view = cache->LayerView(layer);
    for (int page = 0; page < 2000 / 16; ++page) {
      const int32_t at = cache->PageTable(a, layer)[page];
      if (at >= 0) view.pages[at * view.page_bytes + layer] = static_cast<uint8_t>(page + 1);
    }
  }
  const SequenceId b = cache->CloneSequence(a).value();
  EXPECT_EQ(cache->Length(b), 2000);
  EXPECT_EQ(cache->pages_held(b, true), cache->pages_held(a, true));
  for (int layer = 0; layer < 18; ++layer) {
    const PagedKvView view = cache->LayerView(layer);
    for (int page = 0; page < 2000 / 16; ++page) {
      const int32_t from = cache->PageTable(a, layer)[page], to = cache->PageTable(b, layer)[page];
      ASSERT_EQ(from >= 0, to >= 0);
      if (to < 0) continue;
      ASSERT_NE(from, to);
      ASSERT_EQ(view.pages[to * view.page_bytes + layer], static_cast<uint8_t>(page + 1));
    }
  }
  EXPECT_FALSE(cache->CloneSequence(a).ok() && cache->CloneSequence(a).ok());
}

TEST(KvCache, BudgetsThatHoldNothingAreRefusedWithTheArithmetic) {
  const auto page = PlanKvPool(Config(SmolLm2Spec(), "bf16", 1000, 64));
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.error().code(), ErrorCode::kOutOfBudget);
  EXPECT_NE(page.error().message().find("one page"), std::string::npos);
  const auto request = PlanKvPool(Config(SmolLm2Spec(), "bf16", 1 << 20, 8192));
  ASSERT_FALSE(request.ok());
  EXPECT_NE(request.error().message().find("8192 tokens"), std::string::npos);
  auto odd_page = Config(SmolLm2Spec(), "bf16", 1 << 28, 64);
  odd_page.page_tokens = 24;
  EXPECT_EQ(PlanKvPool(odd_page).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace haypile
