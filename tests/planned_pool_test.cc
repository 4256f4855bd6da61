// The planner's view of a Haypile pool and the cache's are one: what is planned is allocated, to the byte.

#include <gtest/gtest.h>

#include "kvcache/kv_cache.h"
#include "planner/known_geometry_test.h"
#include "planner/pool_plan.h"

namespace haypile {
namespace {

struct Size {
  int64_t budget = 0, max_len = 0;
  int page_tokens = 16;
};

// The model that the cache gets from a checkpoint.
ModelSpec SpecOf(const ModelGeometry& model) {
  ModelSpec spec;
  spec.kv_heads = model.generic_kv_heads;
  spec.head_dim = model.generic_head_dim;
  spec.layer_count = static_cast<int>(model.layers.size());
  for (const LayerGeometry& layer : model.layers) spec.layers.push_back({layer.window, false});
  return spec;
}

void ExpectPlannedIsAllocated(const ModelGeometry& model, const std::string& dtype, const Size& size) {
  PlanRequest request;
  request.engine = EngineKind::kHaypile;
  request.kv_cache_dtype = dtype;
  request.pool_bytes_per_rank = {size.budget};
  request.max_model_len = size.max_len;
  request.block_size = size.page_tokens;
  const PoolPlan plan = PlanHaypilePool(model, request).value();

  KvCacheConfig config;
  config.geometry = MakeKvGeometry(SpecOf(model), ParseKvDtype(dtype).value()).value();
  config.budget_bytes = size.budget;
  config.max_model_len = size.max_len;
  config.page_tokens = size.page_tokens;
  auto cache = KvCache::Create(config);
  const std::string where = model.name + " " + dtype + " " + std::to_string(size.budget);
  ASSERT_EQ(plan.refused.has_value(), !cache.ok()) << where;
  if (!cache.ok()) return;
  EXPECT_EQ(plan.used_bytes, cache.value()->allocated_bytes()) << where;
  EXPECT_EQ(plan.pool_tokens, cache.value()->plan().pool_tokens) << where;
  EXPECT_EQ(plan.max_concurrency, cache.value()->plan().requests_at_max_len) << where;
}

TEST(PlannedPool, IsAllocatedToTheByte) {
  const Size sizes[] = {
      {8 << 20, 256, 16},         // many short requests
      {33'333'333, 1000, 16},     // a budget and a length that no page divides
      {(16 << 20) + 1, 700, 48},  // an odd page
      {24 << 20, 1024, 256},      // windows left behind
      {256 << 10, 2048, 16},      // too small: both refuse
      {12'345'678, 512, 32},
  };
  for (const ModelGeometry& model : {SmolLm135m(), Gemma270m()}) {
    for (const KvFormatInfo& format : AllKvFormats()) {
      for (const Size& size : sizes) ExpectPlannedIsAllocated(model, std::string(format.name), size);
    }
    for (const char* mixed : {"q8_0/nvfp4", "fp8_e4m3/mxfp4", "bf16/q4_0"}) {
      for (const Size& size : sizes) ExpectPlannedIsAllocated(model, mixed, size);
    }
  }
}

}  // namespace
}  // namespace haypile
