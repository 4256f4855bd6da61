#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/bytes.h"
#include "base/json.h"
#include "planner/known_geometry_test.h"
#include "planner/plan_checks_test.h"
#include "planner/pool_plan.h"

namespace haypile {
namespace {

PlanRequest Request(const std::string& dtype, int64_t pool, int tp = 1) {
  PlanRequest request;
  request.engine = EngineKind::kTrtllm;
  request.version = {1, 4, 0};
  request.kv_cache_dtype = dtype;
  request.tensor_parallel = tp;
  request.pool_bytes_per_rank = {pool};
  return request;
}

PoolPlan Plan(const ModelGeometry& model, const PlanRequest& request) {
  auto plan = PlanTrtllmPool(model, request);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message());
  return plan.ok() ? plan.value() : PoolPlan{};
}

TEST(TrtllmPool, ChargesEveryDtype) {
  const auto cell = [](const ModelGeometry& model, const std::string& dtype) {
    const PoolPlan plan = Plan(model, Request(dtype, 20 * kGib));
    ExpectSharesAddUp(plan);
    return plan.bytes_per_token;
  };
  EXPECT_EQ(cell(Llama8b(), "auto"), 131072);
  EXPECT_EQ(cell(Llama8b(), "fp8"), 65536);
  EXPECT_EQ(cell(Llama8b(), "nvfp4"), 32768 + 4096);  // data and scale pools, no workspace
  EXPECT_EQ(cell(LatentModel(), "auto"), 61 * 1152);
  EXPECT_EQ(cell(LatentModel(), "nvfp4"), 61 * 324);
  EXPECT_EQ(cell(LatentModel(128), "fp8"), 61 * (576 + 132));
  EXPECT_EQ(cell(Hybrid27b(), "fp8"), 16 * 4 * 512);
}

TEST(TrtllmPool, RoundsBlocksUp) {
  PlanRequest request = Request("auto", 131072LL * 64 + 1);
  request.max_model_len = 64;
  const PoolPlan plan = Plan(Llama8b(), request);
  EXPECT_EQ(plan.num_blocks, 3);
  EXPECT_EQ(plan.pool_tokens, 96);
  EXPECT_GT(plan.used_bytes, plan.pool_bytes);
  ExpectSharesAddUp(plan);
  request.version = {0, 13, 0};  // the C++ manager drops the part of a token first
  EXPECT_EQ(Plan(Llama8b(), request).num_blocks, 2);
  request.max_total_tokens = 33;
  EXPECT_EQ(Plan(Llama8b(), request).pool_tokens, 64);
}

// Public logs; memory in GiB with two places. Rows without tokens give memory and fraction instead.
TEST(TrtllmPool, AgreesWithPublicLogs) {
  std::ifstream file(HAYPILE_TESTDATA_DIR "/trtllm/public_logs.jsonl");
  ASSERT_TRUE(file.is_open());
  int rows = 0;
  for (std::string text; std::getline(file, text); ++rows) {
    const Json row = ParseJson(text).value();
    const std::string id = row["id"].get<std::string>();
    const Json& g = row["geometry"];
    const ModelGeometry model = g.contains("latent")
                                    ? LatentModel()
                                    : DenseModel("row", "llama", g["layers"].get<int>(), g["kv_heads"].get<int>(),
                                                 g["head_dim"].get<int>(), row.value("max_seq_len", 2048));
    PlanRequest request = Request(row["kv_cache_dtype"].get<std::string>(), 0);
    request.block_size = row["tokens_per_block"].get<int64_t>();
    request.max_model_len = row.value("max_seq_len", 0);
    const int64_t blocks = row["blocks"].get<int64_t>();
    if (row.contains("available_gib")) {
      const double available = row["available_gib"].get<double>();
      const auto blocks_at = [&](double gib) {
        request.pool_bytes_per_rank = {static_cast<int64_t>(0.9 * gib * kGib)};
        return Plan(model, request).num_blocks;
      };
      EXPECT_LE(blocks_at(available - 0.005), blocks) << id;
      EXPECT_GE(blocks_at(available + 0.005), blocks) << id;
      EXPECT_EQ(blocks_at(available), blocks) << id;
    }
    if (!row.contains("allocated_gib")) continue;
    const PoolPlan probe = [&] {
      request.pool_bytes_per_rank = {100 * kGib};
      return Plan(model, request);
    }();
    request.pool_bytes_per_rank = {blocks * probe.block_size * probe.bytes_per_token};
    const PoolPlan plan = Plan(model, request);
    EXPECT_EQ(plan.num_blocks, blocks) << id;
    char line[128];
    std::snprintf(line, sizeof(line), "[MemUsageChange] Allocated %.2f GiB for max tokens in paged KV cache (%lld).",
                  row["allocated_gib"].get<double>(), static_cast<long long>(row["tokens"].get<int64_t>()));
    EXPECT_EQ(plan.log_lines.back(), line) << id;
    if (row.contains("pages_per_sequence")) {
      EXPECT_TRUE(HasLineWith(plan.log_lines, "per sequence: " + std::to_string(row["pages_per_sequence"].get<int>())))
          << id;
    }
  }
  EXPECT_EQ(rows, 8);
}

TEST(TrtllmPool, RefusesByTypeCheckpointAndDevice) {
  const auto reason = [](const ModelGeometry& model, const std::string& dtype, int sm, EngineVersion version) {
    PlanRequest request = Request(dtype, kGib);
    request.gpu_sm = sm;
    request.version = version;
    const PoolPlan plan = Plan(model, request);
    return plan.refused ? plan.refused->reason : std::string();
  };
  EXPECT_NE(reason(Llama8b(), "nvfp4", 120, {1, 4, 0}).find("SM120"), std::string::npos);
  EXPECT_NE(reason(Llama8b(), "nvfp4", 90, {1, 4, 0}).find("SM90"), std::string::npos);
  EXPECT_EQ(reason(Llama8b(), "nvfp4", 100, {1, 4, 0}), "");
  EXPECT_EQ(reason(Llama8b(), "nvfp4", 103, {1, 4, 0}), "");
  EXPECT_EQ(reason(Llama8b(), "fp8", 80, {1, 4, 0}), "");
  EXPECT_NE(reason(Llama8b(), "fp8", 75, {1, 4, 0}), "");
  EXPECT_EQ(
      reason(Llama8b(), "bfloat16", 90, {1, 4, 0}),
      "Overriding KV cache quantization with an invalid type \"llm_args.KvCacheConfig.dtype=\"bfloat16\" Accepted "
      "types are \"('fp8', 'nvfp4', 'auto')\".");
  ModelGeometry quantized = Llama8b();
  quantized.checkpoint_kv_dtype = "fp8";
  EXPECT_NE(reason(quantized, "nvfp4", 100, {1, 2, 0}).find("You cannot override a checkpoint"), std::string::npos);
  EXPECT_EQ(reason(quantized, "nvfp4", 100, {1, 4, 0}), "");
}

TEST(TrtllmPool, TakesFp8WhereRubinHasNoNvfp4) {
  PlanRequest request = Request("nvfp4", kGib);
  request.gpu_sm = 107;
  const PoolPlan plan = Plan(Llama8b(), request);
  EXPECT_EQ(plan.resolved_kv_cache_dtype, "fp8");
  EXPECT_EQ(plan.bytes_per_token, 65536);
  EXPECT_TRUE(HasLineWith(plan.warnings, "SM107"));
}

TEST(TrtllmPool, FollowsTheCheckpointOnAuto) {
  ModelGeometry model = Llama8b();
  model.checkpoint_kv_dtype = "nvfp4";
  const PoolPlan plan = Plan(model, Request("auto", kGib));
  EXPECT_EQ(plan.resolved_kv_cache_dtype, "nvfp4");
  EXPECT_EQ(plan.log_lines[0], "Validating KV Cache config against kv_cache_dtype=\"auto\"");
  EXPECT_EQ(plan.log_lines[1], "KV cache quantization set to \"auto\". Using checkpoint KV quantization.");
}

TEST(TrtllmPool, LowersTheContextToThePool) {
  PlanRequest request = Request("auto", 131072LL * 8224);
  const PoolPlan plan = Plan(Llama8b(), request);
  EXPECT_EQ(plan.max_model_len, 8224);
  EXPECT_TRUE(HasLineWith(
      plan.log_lines, "Attention window size 131072 exceeds upper bound 8224 for available blocks. Reducing to 8224."));
  EXPECT_TRUE(HasLineWith(plan.log_lines, "Adjusted max_seq_len to 8224"));
}

TEST(TrtllmPool, TakesStatesOffThePool) {
  PlanRequest request = Request("fp8", 10 * kGib);
  request.mamba_ssm_cache_dtype = "float32";
  request.max_num_seqs = 16;
  const PoolPlan plan = Plan(Hybrid27b(), request);
  EXPECT_EQ(plan.bytes_per_request, 48 * 3207168);
  EXPECT_EQ(plan.num_blocks, (10 * kGib - 16 * plan.bytes_per_request + 32 * 32768 - 1) / (32 * 32768));
  ExpectSharesAddUp(plan);
  request.max_num_seqs = 100;
  EXPECT_TRUE(Plan(Hybrid27b(), request).refused.has_value());
}

TEST(TrtllmPool, SaysWhatItCannotTell) {
  PlanRequest request = Request("auto", kGib);
  request.block_size = 48;
  EXPECT_EQ(PlanTrtllmPool(Llama8b(), request).error().code(), ErrorCode::kInvalidArgument);
  request = Request("auto", kGib);
  request.pool_bytes_per_rank.clear();
  EXPECT_EQ(PlanTrtllmPool(Llama8b(), request).error().code(), ErrorCode::kInvalidArgument);
  request = Request("auto", kGib);
  request.pipeline_parallel = 33;
  EXPECT_EQ(PlanTrtllmPool(Llama8b(), request).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace haypile
