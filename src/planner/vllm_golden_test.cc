#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "planner/plan_checks_test.h"
#include "planner/pool_plan.h"

namespace haypile {
namespace {

LayerGeometry Attention(int heads, int dim, int window = 0) {
  LayerGeometry layer;
  layer.cache = window > 0 ? CacheKind::kSlidingWindow : CacheKind::kFullAttention;
  layer.kv_heads = heads;
  layer.head_dim_k = layer.head_dim_v = dim;
  layer.window = window;
  return layer;
}

void Append(ModelGeometry& model, LayerGeometry layer) {
  layer.index = static_cast<int>(model.layers.size());
  model.layers.push_back(layer);
}

ModelGeometry Named(const std::string& name, int query_heads, int heads, int dim) {
  ModelGeometry model;
  model.name = model.architecture = name;
  model.query_heads = query_heads;
  model.max_positions = 1 << 20;
  model.generic_kv_heads = heads;
  model.generic_head_dim = dim;
  return model;
}

// 64 layers: three gated DeltaNet layers, then one of attention, 16 times.
ModelGeometry Hybrid27b() {
  ModelGeometry model = Named("Qwen3NextForCausalLM", 24, 4, 256);
  LayerGeometry delta;
  delta.cache = CacheKind::kStateSpace;
  delta.state = {.kind = StateKind::kGatedDeltaNet,
                 .conv_kernel = 4,
                 .key_heads = 16,
                 .value_heads = 48,
                 .key_head_dim = 128,
                 .value_head_dim = 128};
  for (int i = 0; i < 64; ++i) Append(model, i % 4 == 3 ? Attention(4, 256) : delta);
  model.mtp_layers = {Attention(4, 256)};
  return model;
}

ModelGeometry Llama8b() {
  ModelGeometry model = Named("LlamaForCausalLM", 32, 8, 128);
  for (int i = 0; i < 32; ++i) Append(model, Attention(8, 128));
  return model;
}

ModelGeometry Gemma27b() {
  ModelGeometry model = Named("Gemma3ForCausalLM", 32, 16, 128);
  for (int i = 0; i < 62; ++i) Append(model, Attention(16, 128, i % 6 == 5 ? 0 : 1024));
  return model;
}

ModelGeometry GptOss20b() {
  ModelGeometry model = Named("GptOssForCausalLM", 64, 8, 64);
  for (int i = 0; i < 24; ++i) Append(model, Attention(8, 64, i % 2 == 0 ? 128 : 0));
  return model;
}

ModelGeometry DeepSeek(int index_head_dim) {
  ModelGeometry model = Named("DeepseekV3ForCausalLM", 128, 128, 576);
  LayerGeometry latent;
  latent.cache = CacheKind::kMla;
  latent.kv_heads = 128;
  latent.kv_lora_rank = 512;
  latent.rope_dim = 64;
  latent.index_head_dim = index_head_dim;
  for (int i = 0; i < 61; ++i) Append(model, latent);
  return model;
}

PlanRequest Request(int64_t bytes, int64_t length, const std::string& dtype) {
  PlanRequest request;
  request.version = {0, 32, 0};
  request.pool_bytes_per_rank = {bytes};
  request.max_model_len = length;
  request.kv_cache_dtype = dtype;
  return request;
}

PoolPlan Plan(const ModelGeometry& model, const PlanRequest& request) {
  Result<PoolPlan> plan = PlanVllmPool(model, request);
  EXPECT_TRUE(plan.ok()) << plan.error().message();
  for (const ByteShare& share : plan->shares) EXPECT_GT(share.bytes, 0) << share.what;
  ExpectSharesAddUp(*plan);
  return *plan;
}

void ExpectPool(const PoolPlan& plan, int64_t blocks, int64_t tokens, const std::string& concurrency) {
  ASSERT_FALSE(plan.refused.has_value()) << plan.refused->reason;
  EXPECT_EQ(plan.num_blocks, blocks);
  EXPECT_EQ(plan.pool_tokens, tokens);
  EXPECT_EQ(fmt::format("{:.2f}", plan.max_concurrency), concurrency);
}

bool HasLine(const PoolPlan& plan, const std::string& line) {
  return std::find(plan.log_lines.begin(), plan.log_lines.end(), line) != plan.log_lines.end();
}

PlanRequest HybridRequest(const std::string& dtype) { return Request(8500000000, 98304, dtype); }

Speculative Mtp(int tokens) {
  Speculative speculative;
  speculative.method = "mtp";
  speculative.tokens = tokens;
  return speculative;
}

// Mamba states of the 27B hybrid are float32 whatever the KV dtype; the published figures keep 3,145,728 bytes a state.
PlanRequest WithFloatStates(PlanRequest request) {
  request.mamba_ssm_cache_dtype = "float32";
  return request;
}

TEST(VllmGolden, HybridByDtype) {
  const ModelGeometry model = Hybrid27b();
  PoolPlan plan = Plan(model, WithFloatStates(HybridRequest("fp8")));
  ExpectPool(plan, 165, 235074, "2.39");
  EXPECT_EQ(plan.block_size, 1568);
  EXPECT_TRUE(HasLine(plan,
                      "Padding mamba page size by 0.13% to ensure that mamba page size and attention page size are "
                      "exactly equal."));
  EXPECT_TRUE(
      HasLine(plan, "GPU KV cache size: 235,074 tokens, Maximum concurrency for 98,304 tokens per request: 2.39x"));
  plan = Plan(model, WithFloatStates(HybridRequest("nvfp4")));
  ExpectPool(plan, 165, 386194, "3.93");
  EXPECT_EQ(plan.block_size, 2784);
  for (const std::string& line : plan.log_lines) EXPECT_FALSE(line.starts_with("Padding")) << line;
  ExpectPool(Plan(model, WithFloatStates(HybridRequest("auto"))), 165, 122880, "1.25");
}

TEST(VllmGolden, HybridWithoutPrefixCaching) {
  PlanRequest request = WithFloatStates(HybridRequest("fp8"));
  request.prefix_caching = false;
  ExpectPool(Plan(Hybrid27b(), request), 165, 245760, "2.50");
}

TEST(VllmGolden, HybridWithMtp) {
  PlanRequest request = WithFloatStates(HybridRequest("fp8"));
  request.speculative = Mtp(1);
  const PoolPlan plan = Plan(Hybrid27b(), request);
  ExpectPool(plan, 154, 210261, "2.14");
  EXPECT_TRUE(HasLine(plan, "Add 3 padding layers, may waste at most 6.25% KV cache memory"));
  request.speculative = Mtp(3);
  ExpectPool(Plan(Hybrid27b(), request), 152, 194054, "1.97");
}

TEST(VllmGolden, HybridWithSkippedLayers) {
  PlanRequest request = WithFloatStates(HybridRequest("nvfp4"));
  request.skip_layers = {"3"};
  ExpectPool(Plan(Hybrid27b(), request), 745, 108982, "1.11");
  request.kv_cache_dtype = "fp8";
  ExpectPool(Plan(Hybrid27b(), request), 1323, 203530, "2.07");
  request.skip_layers = {"3", "63"};
  ExpectPool(Plan(Hybrid27b(), request), 661, 193966, "1.97");
}

TEST(VllmGolden, HybridWithDraftInModelDtype) {
  auto draft = std::make_shared<ModelGeometry>(Named("LlamaForCausalLM", 32, 8, 128));
  for (int i = 0; i < 2; ++i) Append(*draft, Attention(8, 128));
  PlanRequest request = WithFloatStates(HybridRequest("fp8"));
  Speculative speculative;
  speculative.method = "draft_model";
  speculative.draft = draft;
  speculative.draft_kv_dtype = "auto";
  request.speculative = speculative;
  ExpectPool(Plan(Hybrid27b(), request), 661, 177054, "1.80");
}

TEST(VllmGolden, DenseByDtypeAndParallelism) {
  const ModelGeometry model = Llama8b();
  ExpectPool(Plan(model, Request(10 * kGib, 32768, "auto")), 5120, 81920, "2.50");
  ExpectPool(Plan(model, Request(10 * kGib, 32768, "fp8")), 10240, 163840, "5.00");
  ExpectPool(Plan(model, Request(10 * kGib, 32768, "nvfp4")), 18204, 291264, "8.89");
  PlanRequest pipeline = Request(10 * kGib, 32768, "fp8");
  pipeline.pipeline_parallel = 2;
  ExpectPool(Plan(model, pipeline), 20480, 327680, "10.00");
  // The facts' vector keeps all 8 heads beside DCP 2, so as many are given here as TP 2 divides again.
  ModelGeometry wide = model;
  for (LayerGeometry& layer : wide.layers) layer.kv_heads = 16;
  PlanRequest context = Request(10 * kGib, 32768, "fp8");
  context.tensor_parallel = context.decode_context_parallel = 2;
  ExpectPool(Plan(wide, context), 10240, 327680, "10.00");
  PlanRequest fixed = Request(10 * kGib, 8192, "auto");
  fixed.num_gpu_blocks_override = 1000;
  const PoolPlan plan = Plan(model, fixed);
  ExpectPool(plan, 1000, 16000, "1.95");
  EXPECT_TRUE(HasLine(plan, "Overriding num_gpu_blocks=5120 with num_gpu_blocks_override=1000"));
}

TEST(VllmGolden, DenseRefusal) {
  const PoolPlan plan = Plan(Llama8b(), Request(kGib, 131072, "auto"));
  ASSERT_TRUE(plan.refused.has_value());
  EXPECT_EQ(plan.refused->estimated_max_model_len, 8176);
  EXPECT_NE(plan.refused->reason.find("(16.0 GiB KV cache is needed"), std::string::npos) << plan.refused->reason;
}

TEST(VllmGolden, DenseSkippedLayers) {
  PlanRequest request = Request(10 * kGib, 32768, "fp8");
  request.skip_layers = {"0", "31"};
  ExpectPool(Plan(Llama8b(), request), 4818, 154176, "4.71");
  request.kv_cache_dtype = "nvfp4";
  ExpectPool(Plan(Llama8b(), request), 3924, 251136, "7.66");
}

PlanRequest WindowRequest(int64_t bytes, const std::string& dtype) {
  PlanRequest request = Request(bytes, 131072, dtype);
  request.max_num_batched_tokens = 8192;  // twice in flight under async scheduling
  return request;
}

TEST(VllmGolden, SlidingWindows) {
  const ModelGeometry gemma = Gemma27b();
  ExpectPool(Plan(gemma, WindowRequest(20 * kGib, "auto")), 16384, 145829, "1.11");
  ExpectPool(Plan(gemma, WindowRequest(20 * kGib, "fp8")), 32768, 291658, "2.23");
  PlanRequest skip = WindowRequest(20 * kGib, "fp8");
  skip.skip_layers = {"sliding_window"};
  const PoolPlan skipped = Plan(gemma, skip);
  ExpectPool(skipped, 16384, 202021, "1.54");
  EXPECT_EQ(skipped.block_size, 32);
  PlanRequest off = WindowRequest(20 * kGib, "auto");
  off.hybrid_kv_cache_manager = false;
  const PoolPlan refused = Plan(gemma, off);
  ASSERT_TRUE(refused.refused.has_value());
  EXPECT_EQ(refused.refused->estimated_max_model_len, 42256);
  EXPECT_NE(refused.refused->reason.find("62.0 GiB"), std::string::npos);
  EXPECT_NE(refused.refused->reason.find("19.99 GiB"), std::string::npos);
}

TEST(VllmGolden, SlidingWindowsWithDrafter) {
  const ModelGeometry model = GptOss20b();
  ExpectPool(Plan(model, WindowRequest(10 * kGib, "auto")), 27306, 387973, "2.96");
  ExpectPool(Plan(model, WindowRequest(10 * kGib, "fp8")), 54613, 775960, "5.92");
  auto draft = std::make_shared<ModelGeometry>(Named("LlamaForCausalLMEagle", 64, 8, 64));
  Append(*draft, Attention(8, 64));
  PlanRequest eagle = WindowRequest(10 * kGib, "auto");
  Speculative speculative;
  speculative.method = "eagle";
  speculative.draft = draft;
  speculative.tokens = 3;
  eagle.speculative = speculative;
  const PoolPlan plan = Plan(model, eagle);
  ExpectPool(plan, 25206, 358135, "2.73");
  EXPECT_TRUE(HasLine(plan, "Add 1 padding layers, may waste at most 8.33% KV cache memory"));
  PlanRequest skip = WindowRequest(10 * kGib, "nvfp4");
  skip.skip_layers = {"sliding_window"};
  ExpectPool(Plan(model, skip), 24272, 1032580, "7.88");
}

TEST(VllmGolden, LatentRows) {
  PlanRequest request = Request(20 * kGib, 163840, "auto");
  request.block_size = 64;
  ExpectPool(Plan(DeepSeek(0), request), 4774, 305536, "1.86");
  request.kv_cache_dtype = "fp8";
  ExpectPool(Plan(DeepSeek(0), request), 9549, 611136, "3.73");
  request.kv_cache_dtype = "fp8_ds_mla";
  ExpectPool(Plan(DeepSeek(128), request), 6980, 446720, "2.73");
}

TEST(VllmGolden, SmallModelOnCpu) {
  ModelGeometry model = Named("LlamaForCausalLM", 9, 3, 64);
  for (int i = 0; i < 30; ++i) Append(model, Attention(3, 64));
  PlanRequest request = Request(268435456, 8192, "auto");
  request.device = DeviceKind::kCpu;
  const PoolPlan plan = Plan(model, request);
  ExpectPool(plan, 91, 11648, "1.42");
  EXPECT_EQ(plan.bytes_per_token, 23040);
  EXPECT_TRUE(
      HasLine(plan, "CPU KV cache size: 11,648 tokens, Maximum concurrency for 8,192 tokens per request: 1.42x"));
  request.kv_cache_dtype = "fp8";
  ExpectPool(Plan(model, request), 182, 23296, "2.84");
}

}  // namespace
}  // namespace haypile
