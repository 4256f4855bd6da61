#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "planner/pool_plan.h"

namespace haypile {
namespace {

LayerGeometry Attention(int index, int heads, int dim) {
  LayerGeometry layer;
  layer.index = index;
  layer.kv_heads = heads;
  layer.head_dim_k = layer.head_dim_v = dim;
  return layer;
}

// Qwen3-235B-A22B: 94 layers of full attention.
ModelGeometry LargeMoe() {
  ModelGeometry model;
  model.name = "qwen3-235b-a22b";
  model.architecture = "Qwen3MoeForCausalLM";
  model.query_heads = 64;
  model.max_positions = 40960;
  model.generic_kv_heads = 4;
  model.generic_head_dim = 128;
  for (int i = 0; i < 94; ++i) model.layers.push_back(Attention(i, 4, 128));
  return model;
}

// The 27B hybrid: 48 gated DeltaNet layers and 16 of attention.
ModelGeometry Hybrid() {
  ModelGeometry model;
  model.name = "qwen3.5-27b";
  model.architecture = "Qwen3_5ForCausalLM";
  model.query_heads = 24;
  model.max_positions = 262144;
  model.generic_kv_heads = 4;
  model.generic_head_dim = 256;
  model.state_dtype_bytes = 4;
  for (int i = 0; i < 64; ++i) {
    LayerGeometry layer = Attention(i, 4, 256);
    if (i % 4 != 3) {
      layer.cache = CacheKind::kStateSpace;
      layer.state = {.kind = StateKind::kGatedDeltaNet,
                     .conv_kernel = 4,
                     .key_heads = 16,
                     .value_heads = 48,
                     .key_head_dim = 128,
                     .value_head_dim = 128};
    }
    model.layers.push_back(layer);
  }
  return model;
}

void PlanWith(benchmark::State& state, const ModelGeometry& model, const char* dtype, int64_t length) {
  PlanRequest request;
  request.version = NewestKnownVersion(EngineKind::kVllm);
  request.pool_bytes_per_rank = {64'000'000'000};
  request.kv_cache_dtype = dtype;
  request.max_model_len = length;
  for (auto _ : state) {
    Result<PoolPlan> plan = PlanVllmPool(model, request);
    if (!plan.ok()) {
      std::fprintf(stderr, "%s\n", plan.error().message().c_str());
      std::abort();
    }
    benchmark::DoNotOptimize(plan->pool_tokens);
  }
  state.counters["plans/s"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// A plan answers in well under 5 ms.
void LargeMoePlan(benchmark::State& state) { PlanWith(state, LargeMoe(), "fp8", 32768); }
void HybridPlan(benchmark::State& state) { PlanWith(state, Hybrid(), "nvfp4", 98304); }
// Finding the longest context asks for the blocks of a request once a halving.
void HybridAutoFit(benchmark::State& state) { PlanWith(state, Hybrid(), "fp8", -1); }

BENCHMARK(LargeMoePlan);
BENCHMARK(HybridPlan);
BENCHMARK(HybridAutoFit);

}  // namespace
}  // namespace haypile
