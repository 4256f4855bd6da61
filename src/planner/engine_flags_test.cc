#include "planner/engine_flags.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

PlanRequest Request(EngineKind engine, const char* dtype) {
  PlanRequest request;
  request.engine = engine;
  request.kv_cache_dtype = dtype;
  return request;
}

ModelGeometry Named(const char* name) {
  ModelGeometry model;
  model.name = name;
  return model;
}

TEST(EngineFlags, Vllm) {
  PlanRequest request = Request(EngineKind::kVllm, "fp8");
  request.tensor_parallel = 2;
  request.max_model_len = 98304;
  request.skip_layers = {"0", "31"};
  request.prefix_caching = false;
  request.speculative = Speculative{"mtp", nullptr, "", 3, ""};
  const EngineFlags flags = FlagsOf(Named("m"), request);
  ASSERT_EQ(flags.start.size(), 1u);
  EXPECT_EQ(flags.start[0],
            "vllm serve m --tensor-parallel-size 2 --max-model-len 98304 --kv-cache-dtype fp8 "
            "--kv-cache-dtype-skip-layers 0 31 --no-enable-prefix-caching "
            "--speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 3}'");
  EXPECT_EQ(flags.roll_back[0], "--kv-cache-dtype auto");
}

TEST(EngineFlags, RollBackWhereTheCheckpointAsksForAQuantizedCache) {
  ModelGeometry model = Named("m");
  model.checkpoint_kv_dtype = "fp8";
  EXPECT_EQ(FlagsOf(model, Request(EngineKind::kVllm, "auto")).roll_back[0].rfind("--kv-cache-dtype bfloat16", 0), 0u);
  EXPECT_EQ(FlagsOf(model, Request(EngineKind::kSglang, "auto")).roll_back[0], "--kv-cache-dtype bfloat16");
  EXPECT_EQ(FlagsOf(model, Request(EngineKind::kTrtllm, "auto")).roll_back[0].rfind("no flag", 0), 0u);
  EXPECT_EQ(FlagsOf(Named("m"), Request(EngineKind::kTrtllm, "fp8")).roll_back[0],
            "config.yaml: kv_cache_config: {dtype: auto}");
}

TEST(EngineFlags, MemoryUnderTheEnginesOwnNames) {
  const MemoryFlag share{0.9, {}}, bytes{{}, 8'500'000'000};
  EXPECT_EQ(FlagsOf(Named("m"), Request(EngineKind::kVllm, "fp8"), bytes).start[0],
            "vllm serve m --kv-cache-dtype fp8 --kv-cache-memory-bytes 8500000000");
  EXPECT_EQ(FlagsOf(Named("m"), Request(EngineKind::kVllm, "fp8"), share).start[0],
            "vllm serve m --kv-cache-dtype fp8 --gpu-memory-utilization 0.9");
  EXPECT_EQ(FlagsOf(Named("m"), Request(EngineKind::kSglang, "fp8_e4m3"), share).start[0],
            "python -m sglang.launch_server --model-path m --kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.9");
  EXPECT_EQ(FlagsOf(Named("m"), Request(EngineKind::kTrtllm, "fp8"), share).start[1],
            "config.yaml: kv_cache_config: {dtype: fp8, free_gpu_memory_fraction: 0.9}");
}

TEST(EngineFlags, LlamacppTypesApart) {
  PlanRequest request = Request(EngineKind::kLlamacpp, "q8_0/q4_0");
  request.context_size = 8192;
  EXPECT_EQ(FlagsOf(Named("m.gguf"), request).start[0], "llama-server -m m.gguf -c 8192 -ctk q8_0 -ctv q4_0 -fa on");
  EXPECT_EQ(FlagsOf(Named("m.gguf"), Request(EngineKind::kLlamacpp, "f16")).start[0],
            "llama-server -m m.gguf -ctk f16 -ctv f16");
}

}  // namespace
}  // namespace haypile
