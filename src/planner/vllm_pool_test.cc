#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "planner/plan_checks_test.h"
#include "planner/pool_plan.h"
#include "planner/vllm_dtypes.h"
#include "planner/vllm_versions.h"

namespace haypile {
namespace {

ModelGeometry Dense(int layers, int heads, int dim) {
  ModelGeometry model;
  model.name = "dense";
  model.architecture = "LlamaForCausalLM";
  model.query_heads = 32;
  model.max_positions = 131072;
  model.generic_kv_heads = heads;
  model.generic_head_dim = dim;
  for (int i = 0; i < layers; ++i) {
    LayerGeometry layer;
    layer.index = i;
    layer.kv_heads = heads;
    layer.head_dim_k = layer.head_dim_v = dim;
    model.layers.push_back(layer);
  }
  return model;
}

// Every second layer carries a Mamba 2 state.
ModelGeometry Hybrid() {
  ModelGeometry model = Dense(8, 8, 64);
  for (int i = 0; i < 8; i += 2) {
    model.layers[i].cache = CacheKind::kStateSpace;
    model.layers[i].state = {.kind = StateKind::kMamba2,
                             .conv_kernel = 4,
                             .value_heads = 64,
                             .value_head_dim = 64,
                             .intermediate = 4096,
                             .state_size = 128,
                             .groups = 1,
                             .chunk_size = 256};
  }
  return model;
}

ModelGeometry Latent() {
  ModelGeometry model = Dense(4, 16, 192);
  for (LayerGeometry& layer : model.layers) {
    layer.cache = CacheKind::kMla;
    layer.kv_lora_rank = 512;
    layer.rope_dim = 64;
  }
  return model;
}

PlanRequest Request(const std::string& dtype = "auto") {
  PlanRequest request;
  request.version = {0, 32, 0};
  request.pool_bytes_per_rank = {4 * kGib};
  request.max_model_len = 8192;
  request.kv_cache_dtype = dtype;
  return request;
}

PoolPlan Plan(const ModelGeometry& model, const PlanRequest& request) {
  Result<PoolPlan> plan = PlanVllmPool(model, request);
  EXPECT_TRUE(plan.ok()) << plan.error().message();
  return *plan;
}

std::string RefusalOf(const ModelGeometry& model, const PlanRequest& request) {
  const PoolPlan plan = Plan(model, request);
  return plan.refused ? plan.refused->reason : "";
}

TEST(VllmDtypes, BytesOfOneHead) {
  const auto bytes = [](const std::string& name, int dim) {
    return *VllmHeadBytes(*ParseVllmKvDtype(name), 1, dim, dim, 2);
  };
  EXPECT_EQ(bytes("auto", 128), 512);
  EXPECT_EQ(bytes("fp8_e5m2", 128), 256);
  EXPECT_EQ(bytes("nvfp4", 128), 144);
  EXPECT_EQ(bytes("nvfp4_4over6", 256), 288);
  EXPECT_EQ(bytes("int8_per_token_head", 128), 264);
  EXPECT_EQ(bytes("int4_per_token_head", 128), 136);
  EXPECT_EQ(bytes("turboquant_k8v4", 128), 196);
  EXPECT_EQ(bytes("turboquant_k8v4", 256), 388);
  EXPECT_EQ(bytes("turboquant_4bit_nc", 128), 134);
  EXPECT_EQ(bytes("turboquant_k3v4_nc", 256), 230);
  EXPECT_EQ(bytes("turboquant_3bit_nc", 128), 102);
  EXPECT_EQ(bytes("turboquant_3bit_nc", 256), 198);
}

TEST(VllmDtypes, NamesWhatItDoesNotKnow) {
  EXPECT_EQ(ParseVllmKvDtype("int8").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ParseVllmKvDtype("ultraquant_4bit").error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(PlanVllmPool(Dense(2, 8, 24), Request("nvfp4")).error().code(), ErrorCode::kUnsupported);
}

TEST(VllmVersions, PivotsBetweenReleases) {
  EXPECT_FALSE(VllmRulesOf({0, 20, 0}).group_aware_tokens);
  EXPECT_TRUE(VllmRulesOf({0, 20, 1}).group_aware_tokens);
  EXPECT_FALSE(VllmRulesOf({0, 25, 1}).in_flight_batches);
  EXPECT_TRUE(VllmRulesOf({0, 26, 0}).in_flight_batches);
  EXPECT_FALSE(VllmRulesOf({0, 28, 0}).reserves_null_block);
  EXPECT_TRUE(VllmRulesOf({0, 32, 0}).warnings.empty());
  EXPECT_EQ(VllmRulesOf({0, 11, 0}).warnings.size(), 1u);
  EXPECT_EQ(VllmRulesOf({0, 40, 0}).warnings.size(), 1u);
}

TEST(VllmVersions, OldReportDividesBlocksOverGroups) {
  PlanRequest request = Request();
  request.version = {0, 20, 0};
  request.mamba_ssm_cache_dtype = "float32";
  const PoolPlan old = Plan(Hybrid(), request);
  // States alone fill one group and attention the other; caching of prefixes is off in a hybrid of that time.
  EXPECT_EQ(old.pool_tokens, old.num_blocks / 2 * old.block_size);
  EXPECT_TRUE(HasLineWith(old.log_lines, "GPU KV cache size: "));
  EXPECT_TRUE(HasLineWith(old.log_lines, "Maximum concurrency for 8,192 tokens per request: "));
  EXPECT_TRUE(HasLineWith(old.warnings, "#40691"));
  request.version = {0, 20, 1};
  const PoolPlan now = Plan(Hybrid(), request);
  EXPECT_EQ(now.num_blocks, old.num_blocks);
  EXPECT_EQ(now.pool_tokens, static_cast<int64_t>(now.max_concurrency * 8192));
}

TEST(VllmVersions, NullBlockDecidesAnExactFit) {
  PlanRequest request = Request();
  const ModelGeometry model = Dense(32, 8, 128);
  request.pool_bytes_per_rank = {kGib};  // 512 blocks of 16: 8,192 tokens
  request.version = {0, 28, 0};
  const PoolPlan before = Plan(model, request);
  EXPECT_FALSE(before.refused.has_value());
  EXPECT_TRUE(HasLineWith(before.warnings, "#35541"));
  request.version = {0, 29, 0};
  const PoolPlan after = Plan(model, request);
  ASSERT_TRUE(after.refused.has_value());
  EXPECT_EQ(after.refused->estimated_max_model_len, 8176);
}

TEST(VllmPool, RefusesDtypesByComputeCapability) {
  const ModelGeometry model = Dense(4, 8, 128);
  PlanRequest request = Request("nvfp4");
  request.gpu_sm = 120;
  EXPECT_NE(RefusalOf(model, request).find("No valid attention backend found"), std::string::npos);
  request.gpu_sm = 100;
  EXPECT_EQ(RefusalOf(model, request), "");
  request.gpu_sm = 0;
  EXPECT_EQ(RefusalOf(model, request), "");
  EXPECT_TRUE(HasLineWith(Plan(model, request).warnings, "SM10x"));
  request = Request("fp8_per_token_head");
  request.gpu_sm = 86;
  EXPECT_NE(RefusalOf(model, request).find("requires SM89+"), std::string::npos);
  request.gpu_sm = 89;
  EXPECT_EQ(RefusalOf(model, request), "");
}

TEST(VllmPool, RefusesNvfp4OfLatentRows) {
  PlanRequest request = Request("nvfp4");
  request.gpu_sm = 100;
  const Result<PoolPlan> plan = PlanVllmPool(Latent(), request);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  ASSERT_TRUE(plan->refused.has_value());
  EXPECT_TRUE(plan->refused->reason.starts_with("nvfp4 KV cache is not supported with MLA"));
}

TEST(VllmPool, RefusesE5m2OfScaledCheckpoints) {
  ModelGeometry model = Dense(4, 8, 128);
  model.quantization_method = "fp8";
  EXPECT_EQ(RefusalOf(model, Request("fp8_e5m2")), "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.");
}

TEST(VllmPool, RefusesFp8HeadsOnCpu) {
  PlanRequest request = Request("fp8");
  request.device = DeviceKind::kCpu;
  EXPECT_EQ(RefusalOf(Dense(4, 8, 80), request), "FP8 KV cache requires head_size divisible by 32 on CPU.");
}

TEST(VllmPool, TakesTheCheckpointsDtypeForAuto) {
  ModelGeometry model = Dense(4, 8, 128);
  model.checkpoint_kv_dtype = "fp8";
  model.quantization_method = "modelopt";
  const PoolPlan plan = Plan(model, Request());
  EXPECT_EQ(plan.resolved_kv_cache_dtype, "fp8_e4m3");
  EXPECT_EQ(plan.bytes_per_token, 4 * 8 * 256);
}

TEST(VllmPool, WarnsOfIgnoredSkipLayers) {
  PlanRequest request = Request("fp8");
  const ModelGeometry model = Dense(32, 8, 128);
  const PoolPlan plain = Plan(model, request);
  request.device = DeviceKind::kCpu;
  const PoolPlan cpu = Plan(model, request);
  request.skip_layers = {"0,31"};
  const PoolPlan ignored = Plan(model, request);
  EXPECT_EQ(ignored.pool_tokens, cpu.pool_tokens);
  EXPECT_TRUE(HasLineWith(ignored.warnings, "'0,31' names no attention layer"));
  EXPECT_TRUE(HasLineWith(ignored.warnings, "Commas do not separate"));
}

TEST(VllmPool, FitsLengthToMemory) {
  PlanRequest request = Request();
  request.max_model_len = -1;
  const PoolPlan plan = Plan(Dense(32, 8, 128), request);
  ASSERT_FALSE(plan.refused.has_value());
  EXPECT_EQ(plan.max_model_len, 32752);
  EXPECT_TRUE(HasLineWith(plan.log_lines,
                          "Auto-fit max_model_len: reduced from 131072 to 32752 to fit in available KV "
                          "cache memory (4.0 GiB GPU)"));
}

TEST(VllmPool, RefusesMoreThanTheModelServes) {
  PlanRequest request = Request();
  request.max_model_len = 200000;
  EXPECT_NE(RefusalOf(Dense(4, 8, 128), request).find("User-specified max_model_len (200000) is greater"),
            std::string::npos);
}

TEST(VllmPool, TheTightestStageDecides) {
  PlanRequest request = Request();
  request.pipeline_parallel = 2;
  request.pool_bytes_per_rank = {kGib, 4 * kGib};
  const PoolPlan plan = Plan(Dense(32, 8, 128), request);
  EXPECT_EQ(plan.num_blocks, kGib / (16 * 16 * 4096));
  EXPECT_EQ(plan.pool_bytes, kGib);
  request.pool_bytes_per_rank = {kGib, kGib, kGib};
  EXPECT_EQ(PlanVllmPool(Dense(32, 8, 128), request).error().code(), ErrorCode::kInvalidArgument);
}

TEST(VllmPool, WarnsOfFewerHeadsThanRanks) {
  PlanRequest request = Request();
  request.tensor_parallel = 16;
  const PoolPlan plan = Plan(Dense(4, 8, 128), request);
  EXPECT_EQ(plan.bytes_per_token, 4 * 512);
  EXPECT_TRUE(HasLineWith(plan.warnings, "8 KV heads on 16 tensor-parallel ranks"));
}

TEST(VllmPool, KeepsLayersThatShareACacheOut) {
  ModelGeometry model = Dense(4, 8, 128);
  model.layers[3].cache = CacheKind::kNone;
  model.layers[3].kv_shared_with = 1;
  EXPECT_EQ(Plan(model, Request()).bytes_per_token, 3 * 8 * 512);
}

TEST(VllmPool, HybridWithoutTheManagerIsRefused) {
  PlanRequest request = Request();
  request.hybrid_kv_cache_manager = false;
  EXPECT_EQ(RefusalOf(Hybrid(), request), "Failed to promote local KV cache specs to one unified type.");
}

TEST(VllmPool, StatesPerRequestFollowTheMode) {
  PlanRequest request = Request();
  const auto needed = [&](const EngineVersion& version) {
    request.version = version;
    const PoolPlan plan = Plan(Hybrid(), request);
    return static_cast<double>(plan.num_blocks) / plan.max_concurrency;
  };
  const double attention = static_cast<double>((8192 + 1055) / 1056);
  request.block_size = 32;
  request.mamba_ssm_cache_dtype = "float32";
  request.prefix_caching = false;
  EXPECT_NEAR(needed({0, 32, 0}), attention + 1, 1e-9);
  request.prefix_caching = true;
  EXPECT_NEAR(needed({0, 31, 0}), attention + 2, 1e-9);
  EXPECT_NEAR(needed({0, 32, 0}), attention + 3, 1e-9);  // and one for the checkpoint of a prefill
  request.mamba_cache_mode = "all";
  EXPECT_NE(RefusalOf(Hybrid(), request), "");
  // Blocks of 1,280: a multiple of the kernel's chunk of 256.
  EXPECT_NEAR(needed({0, 31, 0}), 7 + 7, 1e-9);
}

TEST(VllmPool, NeedsBytes) {
  PlanRequest request = Request();
  request.pool_bytes_per_rank.clear();
  EXPECT_EQ(PlanVllmPool(Dense(4, 8, 128), request).error().code(), ErrorCode::kInvalidArgument);
  request.pool_bytes_per_rank = {0};
  EXPECT_NE(RefusalOf(Dense(4, 8, 128), request).find("No available memory for the cache blocks."), std::string::npos);
}

}  // namespace
}  // namespace haypile
