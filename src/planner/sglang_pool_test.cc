#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "base/bytes.h"
#include "base/json.h"
#include "planner/known_geometry_test.h"
#include "planner/plan_checks_test.h"
#include "planner/pool_plan.h"

namespace haypile {
namespace {

PlanRequest Request(const std::string& dtype, int64_t pool, int tp = 1) {
  PlanRequest request;
  request.engine = EngineKind::kSglang;
  request.version = {0, 5, 16};
  request.kv_cache_dtype = dtype;
  request.tensor_parallel = tp;
  request.pool_bytes_per_rank = {pool};
  return request;
}

PoolPlan Plan(const ModelGeometry& model, const PlanRequest& request) {
  auto plan = PlanSglangPool(model, request);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message());
  return plan.ok() ? plan.value() : PoolPlan{};
}

TEST(SglangPool, PlansTheHybridAtTwoRanks) {
  // Pools that held these tokens; the remainder of a cell changes nothing.
  const PoolPlan fp8 = Plan(Hybrid27b(), Request("fp8_e4m3", 2'887'228LL * 16384 + 16383, 2));
  EXPECT_EQ(fp8.bytes_per_token, 16384);
  EXPECT_EQ(fp8.pool_tokens, 2'887'228);
  const PoolPlan fp4 = Plan(Hybrid27b(), Request("nvfp4", 1'979'584LL * 10240 + 10239, 2));
  EXPECT_EQ(fp4.bytes_per_token, 10240);  // 9,216 stored and a workspace of one layer
  EXPECT_EQ(fp4.pool_tokens, 1'979'584);
  EXPECT_EQ(fp4.block_size, 64);
  EXPECT_TRUE(HasLineWith(fp4.warnings, "1024 bytes a token go to an FP8 workspace"));
  EXPECT_TRUE(HasLineWith(fp4.log_lines, "NVFP4 KV Cache might lead to an accuracy drop!"));
  EXPECT_TRUE(HasLineWith(fp8.log_lines,
                          "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 2887228, K size: 22.03 GB, "
                          "V size: 22.03 GB"));
  ExpectSharesAddUp(fp8);
  ExpectSharesAddUp(fp4);
}

TEST(SglangPool, ChargesTheCellOfEveryDtype) {
  const auto cell = [](const ModelGeometry& model, const std::string& dtype) {
    return Plan(model, Request(dtype, 20 * kGib)).bytes_per_token;
  };
  EXPECT_EQ(cell(Llama8b(), "auto"), 131072);
  EXPECT_EQ(cell(Llama8b(), "bf16"), 131072);
  EXPECT_EQ(cell(Llama8b(), "fp8_e5m2"), 65536);
  EXPECT_EQ(cell(Llama8b(), "mxfp8"), 65536 + 2048);
  EXPECT_EQ(cell(Llama8b(), "nvfp4"), 38912);
  EXPECT_EQ(cell(Llama8b(), "fp4_mx_block16"), 38912);
  EXPECT_EQ(cell(LatentModel(), "bf16"), 61 * 1152);
  EXPECT_EQ(cell(LatentModel(), "fp8_e4m3"), 61 * 576);
  EXPECT_EQ(cell(LatentModel(), "nvfp4"), 61 * 324);
  EXPECT_EQ(cell(LatentModel(128), "fp8_e4m3"), 61 * (656 + 132));
  EXPECT_EQ(cell(LatentModel(128), "bf16"), 61 * (1152 + 132));
}

TEST(SglangPool, RefusesDtypesInTheEnginesWords) {
  const auto reason = [](const std::string& dtype, EngineVersion version, int sm) {
    PlanRequest request = Request(dtype, kGib);
    request.version = version;
    request.gpu_sm = sm;
    const PoolPlan plan = Plan(Llama8b(), request);
    return plan.refused ? plan.refused->reason : std::string();
  };
  EXPECT_EQ(reason("fp4_e2m1", {0, 5, 16}, 100),
            "--kv-cache-dtype=fp4_e2m1 is deprecated. Use --kv-cache-dtype=fp4_mx_block16.");
  EXPECT_EQ(reason("fp4_e2m1", {0, 5, 6}, 100), "");
  EXPECT_NE(reason("mxfp4", {0, 5, 16}, 100), "");
  EXPECT_NE(reason("fp8", {0, 5, 16}, 100).find("invalid choice: 'fp8'"), std::string::npos);
  EXPECT_NE(reason("nvfp4", {0, 5, 16}, 90).find("SM90"), std::string::npos);
  EXPECT_EQ(reason("fp4_mx_block16", {0, 5, 16}, 90), "");
}

TEST(SglangPool, FollowsModelOptCheckpointsAlone) {
  ModelGeometry model = Llama8b();
  model.checkpoint_kv_dtype = "fp8";
  model.quantization_method = "modelopt";
  EXPECT_EQ(Plan(model, Request("auto", kGib)).resolved_kv_cache_dtype, "fp8_e4m3");
  model.quantization_method = "compressed-tensors";
  const PoolPlan plan = Plan(model, Request("auto", kGib));
  EXPECT_EQ(plan.resolved_kv_cache_dtype, "bfloat16");
  EXPECT_TRUE(HasLineWith(plan.warnings, "does not follow"));
}

// The geometry of a row, by config.json's numbers.
ModelGeometry RowModel(const Json& g) {
  const int layers = g["layers"].get<int>();
  if (g.contains("latent")) {
    ModelGeometry model = LatentModel(g.value("index", 0));
    return model;
  }
  ModelGeometry model = DenseModel("row", "llama", 0, g["kv_heads"].get<int>(), g["head_dim"].get<int>(), 131072);
  const int every = g.value("attention_every", 1);
  LayerGeometry state;
  state.cache = CacheKind::kStateSpace;
  if (g.contains("delta")) {
    const Json& d = g["delta"];
    state.state = {StateKind::kGatedDeltaNet,   d["conv_kernel"].get<int>(), d["key_heads"].get<int>(),
                   d["value_heads"].get<int>(), d["dim"].get<int>(),         d["dim"].get<int>()};
  } else if (g.contains("mamba2")) {
    const Json& m = g["mamba2"];
    state.state.kind = StateKind::kMamba2;
    state.state.conv_kernel = m["conv_kernel"].get<int>();
    state.state.intermediate = m["intermediate"].get<int64_t>();
    state.state.state_size = m["state"].get<int>();
    state.state.groups = m["groups"].get<int>();
    state.state.value_heads = m["heads"].get<int>();
    state.state.value_head_dim = m["head_dim"].get<int>();
  }
  for (int i = 0; i < layers; ++i) {
    AddLayer(model, i % every == every - 1 ? AttentionLayer(model.generic_kv_heads, model.generic_head_dim) : state);
  }
  return model;
}

// Public logs print K (and V) in GB with two places; the tokens must lie in what that leaves.
TEST(SglangPool, AgreesWithPublicLogs) {
  std::ifstream file(HAYPILE_TESTDATA_DIR "/sglang/public_logs.jsonl");
  ASSERT_TRUE(file.is_open());
  int rows = 0;
  for (std::string text; std::getline(file, text); ++rows) {
    const Json row = ParseJson(text).value();
    const std::string id = row["id"].get<std::string>();
    const ModelGeometry model = RowModel(row["geometry"]);
    PlanRequest request = Request(row["kv_cache_dtype"].get<std::string>(), 0, row["tp"].get<int>());
    request.version = ParseEngineVersion(row["version"].get<std::string>()).value();
    request.gpu_sm = row["gpu_sm"].get<int>();
    const bool latent = row.contains("kv_gb");
    const double gb = (latent ? row["kv_gb"] : row["k_gb"]).get<double>();
    const auto tokens_at = [&](double printed) {
      request.pool_bytes_per_rank = {static_cast<int64_t>(printed * (latent ? 1 : 2) * kGib)};
      return Plan(model, request).pool_tokens;
    };
    const int64_t tokens = row["tokens"].get<int64_t>();
    EXPECT_LE(tokens_at(gb - 0.005), tokens + row["page_size"].get<int>()) << id;
    EXPECT_GE(tokens_at(gb + 0.005), tokens) << id;
    request.pool_bytes_per_rank = {tokens * Plan(model, request).bytes_per_token};
    const PoolPlan plan = Plan(model, request);
    EXPECT_EQ(plan.pool_tokens, tokens) << id;
    char size[64];
    std::snprintf(size, sizeof(size), latent ? "KV size: %.2f GB" : "K size: %.2f GB", gb);
    EXPECT_TRUE(HasLineWith(plan.log_lines, size))
        << id << " " << size << " " << plan.log_lines[plan.log_lines.size() - 2];
    ExpectSharesAddUp(plan);
  }
  EXPECT_EQ(rows, 21);
}

// Three hybrids whose logs give both pools: what is left is shared out between states and tokens by the ratio 0.9.
TEST(SglangPool, SplitsStatesFromTokensAsPublicLogsDo) {
  std::ifstream file(HAYPILE_TESTDATA_DIR "/sglang/public_logs.jsonl");
  int rows = 0;
  for (std::string text; std::getline(file, text);) {
    const Json row = ParseJson(text).value();
    if (!row.contains("states")) continue;
    ++rows;
    const std::string id = row["id"].get<std::string>();
    const ModelGeometry model = RowModel(row["geometry"]);
    PlanRequest request = Request(row["kv_cache_dtype"].get<std::string>(), kGib, row["tp"].get<int>());
    request.version = ParseEngineVersion(row["version"].get<std::string>()).value();
    const PoolPlan probe = Plan(model, request);
    const int64_t slots = row["states"]["slots"].get<int64_t>(), tokens = row["tokens"].get<int64_t>();
    const int64_t state = probe.bytes_per_request;
    request.pool_includes_states = true;
    request.pool_bytes_per_rank = {tokens * probe.bytes_per_token + slots * state};
    const PoolPlan plan = Plan(model, request);
    EXPECT_EQ(plan.pool_tokens, tokens) << id;
    char line[128];
    std::snprintf(line, sizeof(line), "max_mamba_cache_size: %d, conv_state size: %.2fGB, ssm_state size: %.2fGB",
                  static_cast<int>(slots), row["states"]["conv_gb"].get<double>(),
                  row["states"]["ssm_gb"].get<double>());
    EXPECT_TRUE(HasLineWith(plan.log_lines, line)) << id << " " << line << "\n" << plan.log_lines[0];
    ExpectSharesAddUp(plan);
  }
  EXPECT_EQ(rows, 3);
}

ModelGeometry Gemma4Mid() {  // 40 sliding layers of 8 heads of 256, 8 full layers of one head of 512
  ModelGeometry model = DenseModel("gemma-4", "gemma4_text", 0, 8, 256, 131072);
  for (int i = 0; i < 48; ++i) AddLayer(model, i % 6 == 5 ? AttentionLayer(1, 512) : AttentionLayer(8, 256, 1024));
  return model;
}

TEST(SglangPool, SharesOutWindows) {
  // A public log with NVFP4: 765,776 full and 612,620 window tokens, K 1.64 and 26.29 GB, 55.87 GB together. The
  // formula counts FP4 as whole bytes beside window pools.
  const double cell = 8192 + 0.8 * 163840;
  PlanRequest request = Request("nvfp4", static_cast<int64_t>(765'776 * cell) + 1000);
  request.block_size = 1;
  const PoolPlan plan = Plan(Gemma4Mid(), request);
  EXPECT_EQ(plan.pool_tokens, 765'776);
  EXPECT_TRUE(
      HasLineWith(plan.log_lines, "Use sliding window memory pool. full_layer_tokens=765776, swa_layer_tokens=612620"));
  EXPECT_TRUE(HasLineWith(plan.log_lines, "#tokens: 612620, K size: 26.29 GB, V size: 26.29 GB"));
  EXPECT_TRUE(HasLineWith(plan.log_lines, "#tokens: 765776, K size: 1.64 GB, V size: 1.64 GB"));
  EXPECT_TRUE(HasLineWith(plan.log_lines, "SWAKVPool mem usage: 55.87 GB, swa size: 612620, full size: 765776"));
  EXPECT_TRUE(HasLineWith(plan.warnings, "the capacity is that of FP8"));
  ExpectSharesAddUp(plan);
  EXPECT_EQ(Plan(Gemma4Mid(), Request("fp8_e4m3", static_cast<int64_t>(765'776 * cell) + 1000)).pool_tokens, 765'776);
}

TEST(SglangPool, RefusesAWindowPoolThatHoldsNoRequest) {
  const PoolPlan plan = Plan(Gemma4Mid(), Request("bf16", 300 << 20));
  ASSERT_TRUE(plan.refused.has_value());
  EXPECT_NE(plan.refused->reason.find("cannot hold even one request"), std::string::npos);
  const PoolPlan none = Plan(Llama8b(), Request("bf16", 1000));
  EXPECT_EQ(none.refused->reason, "Not enough memory. Please try to increase --mem-fraction-static.");
}

TEST(SglangPool, ChargesDraftersByTheirKind) {
  const auto draft = std::make_shared<ModelGeometry>(DenseModel("eagle", "llama", 1, 8, 128, 131072));
  PlanRequest request = Request("fp8_e4m3", 20 * kGib);
  request.speculative = Speculative{"EAGLE3", draft, "eagle", 3, "bfloat16"};
  const PoolPlan eagle = Plan(Llama8b(), request);
  EXPECT_EQ(eagle.bytes_per_token, 65536 + 2048);  // a 33rd layer of the target's FP8
  EXPECT_TRUE(HasLineWith(eagle.warnings, "takes 4,096 bytes a token and 2,048 are charged"));
  ExpectSharesAddUp(eagle);
  request.speculative->method = "dflash";
  EXPECT_EQ(Plan(Llama8b(), request).bytes_per_token, 65536 + 4096);  // its own bytes
  request.speculative->method = "ngram";
  EXPECT_EQ(Plan(Llama8b(), request).bytes_per_token, 65536);
}

TEST(SglangPool, AppliesPagesAndLimits) {
  PlanRequest request = Request("bf16", 131072LL * 1000);
  request.block_size = 64;
  EXPECT_EQ(Plan(Llama8b(), request).pool_tokens, 960);
  request.max_total_tokens = 500;
  EXPECT_EQ(Plan(Llama8b(), request).pool_tokens, 448);
  request.max_total_tokens = 5000;
  const PoolPlan plan = Plan(Llama8b(), request);
  EXPECT_EQ(plan.pool_tokens, 960);
  EXPECT_TRUE(HasLineWith(
      plan.log_lines, "max_total_tokens=5000 is larger than the profiled value 960. Use the profiled value instead."));
  EXPECT_TRUE(HasLineWith(plan.log_lines, "max_running_requests=480,"));  // half of the tokens
  ExpectSharesAddUp(plan);
  EXPECT_TRUE(HasLineWith(plan.warnings, "less than one request"));
}

TEST(SglangPool, TakesTheLeastPipelineStage) {
  PlanRequest request = Request("bf16", 131072LL * 1000);
  request.pipeline_parallel = 3;  // 11, 11 and 10 of 32 layers
  EXPECT_EQ(Plan(Llama8b(), request).pool_tokens, 131072LL * 1000 / (11 * 4096));
  request.pool_bytes_per_rank = {131072LL * 1000, 131072LL * 1000, 131072LL * 500};
  EXPECT_EQ(Plan(Llama8b(), request).pool_tokens, 131072LL * 500 / (10 * 4096));
}

TEST(SglangPool, SaysWhatItCannotTell) {
  PlanRequest request = Request("bf16", kGib);
  request.pool_bytes_per_rank.clear();
  EXPECT_EQ(PlanSglangPool(Llama8b(), request).error().code(), ErrorCode::kInvalidArgument);
  request = Request("bf16", kGib);
  request.decode_context_parallel = 2;
  EXPECT_EQ(PlanSglangPool(Llama8b(), request).error().code(), ErrorCode::kUnsupported);
  ModelGeometry crossed = Llama8b();
  crossed.layers[3].cache = CacheKind::kCrossAttention;
  EXPECT_EQ(PlanSglangPool(crossed, Request("bf16", kGib)).error().code(), ErrorCode::kUnsupported);
}

TEST(SglangPool, WarnsOfCopiedHeads) {
  EXPECT_TRUE(HasLineWith(Plan(DenseModel("q", "qwen3_moe", 94, 4, 128, 32768), Request("auto", kGib, 8)).warnings,
                          "each head is kept 2 times"));
  EXPECT_TRUE(HasLineWith(Plan(LatentModel(), Request("auto", kGib, 8)).warnings, "kept whole on every rank"));
}

}  // namespace
}  // namespace haypile
