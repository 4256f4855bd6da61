#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/bytes.h"
#include "engines/doctor.h"
#include "engines/start_log.h"
#include "planner/model_catalogue.h"
#include "planner/number_text.h"
#include "planner/pool_plan.h"

namespace haypile {
namespace {

struct Logged {
  std::string dtype = "fp8";
  double gib = 10.0;
  int64_t tokens = 0;
  std::optional<int64_t> block = {};
  std::optional<double> weights_gib = {};
  int64_t max_model_len = 32768;
};

LogRecord LogOf(const Logged& logged) {
  std::string text = fmt::format(
      "(EngineCore pid=1) INFO 11-29 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.30.0) with config: "
      "model='m', "
      "dtype=torch.bfloat16, max_seq_len={}, tensor_parallel_size=1, quantization=None, kv_cache_dtype={}\n",
      logged.max_model_len, logged.dtype);
  if (logged.block) {
    text += fmt::format(
        "INFO 11-29 10:00:00 [interface.py:5] Setting attention block size to {} tokens to ensure that "
        "attention page size is >= mamba page size.\n",
        *logged.block);
  }
  if (logged.weights_gib) {
    text += fmt::format(
        "INFO 11-29 10:00:01 [gpu_model_runner.py:2] Model loading took {:.2f} GiB memory and 3.1 seconds\n",
        *logged.weights_gib);
  }
  text += fmt::format("INFO 11-29 10:00:02 [gpu_worker.py:3] Available KV cache memory: {:.2f} GiB\n", logged.gib);
  text += fmt::format(
      "INFO 11-29 10:00:03 [kv_cache_utils.py:4] GPU KV cache size: {} tokens, Maximum concurrency for {} "
      "tokens per request: {:.2f}x\n",
      Grouped(logged.tokens), Grouped(logged.max_model_len),
      static_cast<double>(logged.tokens) / static_cast<double>(logged.max_model_len));
  return ParseStartLog(text).value();
}

CheckpointScales Checkpoint(const char* model) {
  CheckpointScales checkpoint;
  checkpoint.folder = "m";
  checkpoint.geometry = CatalogueModel(model).value();
  checkpoint.geometry_known = true;
  return checkpoint;
}

PoolPlan Planned(const char* model, const std::string& dtype, double gib, std::optional<int64_t> block = {}) {
  PlanRequest request;
  request.version = ParseEngineVersion("0.30.0").value();
  request.kv_cache_dtype = dtype;
  request.max_model_len = 32768;
  request.block_size = block;
  request.pool_bytes_per_rank = {static_cast<int64_t>(gib * static_cast<double>(kGib))};
  return PlanPool(CatalogueModel(model).value(), request).value();
}

const Finding* PlanFinding(const Findings& findings) {
  for (const Finding& finding : findings) {
    if (finding.id.starts_with("plan.")) return &finding;
  }
  return nullptr;
}

Finding AgainstOwnPlan(const char* model, const Logged& logged) {
  const LogRecord log = LogOf(logged);
  const CheckpointScales checkpoint = Checkpoint(model);
  const Findings findings = DiagnoseLog({.log = &log, .checkpoint = &checkpoint});
  const Finding* finding = PlanFinding(findings);
  return finding != nullptr ? *finding : Finding{};
}

TEST(DoctorPlan, AgreesWhereNothingDiffers) {
  for (const char* dtype : {"fp8", "auto"}) {
    const int64_t tokens = Planned("llama-3.1-8b", dtype, 10.0).pool_tokens;
    EXPECT_EQ(AgainstOwnPlan("llama-3.1-8b", {.dtype = dtype, .tokens = tokens}).id, "plan.agrees") << dtype;
  }
  const PoolPlan hybrid = Planned("qwen3.5-27b", "fp8", 8.0);
  EXPECT_EQ(AgainstOwnPlan("qwen3.5-27b", {.gib = 8.0, .tokens = hybrid.pool_tokens, .block = hybrid.block_size}).id,
            "plan.agrees");
}

TEST(DoctorPlan, DiffersByDtype) {
  // FP8 was asked for, and the pool is one of 16 bits; and the reverse.
  const int64_t sixteen = Planned("llama-3.1-8b", "auto", 10.0).pool_tokens;
  const int64_t eight = Planned("llama-3.1-8b", "fp8", 10.0).pool_tokens;
  const Finding fewer = AgainstOwnPlan("llama-3.1-8b", {.dtype = "fp8", .tokens = sixteen});
  EXPECT_EQ(fewer.id, "plan.differs_by_dtype") << fewer.what;
  EXPECT_EQ(fewer.severity, Severity::kWarning);
  EXPECT_NE(fewer.what.find("smaller"), std::string::npos);
  const Finding more = AgainstOwnPlan("llama-3.1-8b", {.dtype = "auto", .tokens = eight});
  EXPECT_EQ(more.id, "plan.differs_by_dtype") << more.what;
  EXPECT_NE(more.what.find("fp8"), std::string::npos);
}

TEST(DoctorPlan, DiffersByBlockSize) {
  const PoolPlan plan = Planned("qwen3.5-27b", "fp8", 8.0);
  const int64_t block = plan.block_size * 3;
  const int64_t tokens = Planned("qwen3.5-27b", "fp8", 8.0, block).pool_tokens;
  ASSERT_NE(tokens, plan.pool_tokens);
  const Finding finding = AgainstOwnPlan("qwen3.5-27b", {.gib = 8.0, .tokens = tokens, .block = block});
  EXPECT_EQ(finding.id, "plan.differs_by_block_size") << finding.what;
  EXPECT_NE(finding.what.find(Grouped(block) + " in the log"), std::string::npos) << finding.what;
}

TEST(DoctorPlan, DiffersByMemory) {
  // 30% of the tokens are missing, and no dtype or block explains it.
  const PoolPlan plan = Planned("llama-3.1-8b", "fp8", 10.0);
  const Finding finding = AgainstOwnPlan("llama-3.1-8b", {.tokens = plan.pool_tokens * 7 / 10});
  EXPECT_EQ(finding.id, "plan.differs_by_memory") << finding.what;
  EXPECT_NE(finding.what.find("3.00 GiB"), std::string::npos) << finding.what;
}

// What `haypile plan --json` writes, as far as the doctor reads it.
PlanFile FileOf(double gib, double weights_gib) {
  PlanFile plan;
  plan.path = "plan.json";
  plan.engine = "vllm";
  plan.model = "llama-3.1-8b";
  plan.terms = {{"weights", -static_cast<int64_t>(weights_gib * static_cast<double>(kGib))}};
  for (const char* dtype : {"auto", "fp8"}) {
    const PoolPlan pool = Planned("llama-3.1-8b", dtype, gib);
    plan.rows.push_back({dtype, pool.resolved_kv_cache_dtype, pool.bytes_per_token, pool.pool_bytes, pool.block_size,
                         pool.pool_tokens, false});
  }
  return plan;
}

Finding AgainstFile(const PlanFile& plan, const Logged& logged) {
  const LogRecord log = LogOf(logged);
  DoctorInput input;
  input.log = &log;
  input.plan = &plan;
  const Findings findings = DiagnoseLog(input);
  const Finding* finding = PlanFinding(findings);
  return finding != nullptr ? *finding : Finding{};
}

TEST(DoctorPlanFile, NamesTheTerm) {
  const PlanFile plan = FileOf(10.0, 15.0);
  const int64_t eight = plan.Find("fp8")->pool_tokens, sixteen = plan.Find("auto")->pool_tokens;
  EXPECT_EQ(AgainstFile(plan, {.tokens = eight}).id, "plan.agrees");
  const Finding dtype = AgainstFile(plan, {.tokens = sixteen});
  EXPECT_EQ(dtype.id, "plan.differs_by_dtype") << dtype.what;
  const Finding memory = AgainstFile(plan, {.gib = 7.0, .tokens = eight * 7 / 10, .weights_gib = 18.0});
  EXPECT_EQ(memory.id, "plan.differs_by_memory") << memory.what;
  EXPECT_NE(memory.what.find("7.00 GiB for the pool, 10.00 planned (-3.00)"), std::string::npos) << memory.what;
  EXPECT_NE(memory.what.find("weights took 18.00 GiB, 15.00 planned (+3.00)"), std::string::npos) << memory.what;
  const Finding silent = AgainstFile(plan, {.gib = 7.0, .tokens = eight * 7 / 10});
  EXPECT_NE(silent.what.find("does not say which term"), std::string::npos) << silent.what;
  const Finding block = AgainstFile(plan, {.tokens = eight * 8 / 10, .block = 1600});
  EXPECT_EQ(block.id, "plan.differs_by_block_size") << block.what;
  const Finding cell = AgainstFile(plan, {.tokens = eight * 8 / 10});
  EXPECT_EQ(cell.id, "plan.differs") << cell.what;
  EXPECT_NE(cell.what.find("memory is as planned"), std::string::npos) << cell.what;
  EXPECT_EQ(AgainstFile(plan, {.dtype = "nvfp4", .tokens = eight}).id, "plan.no_such_dtype");
}

TEST(DoctorPlanFile, ReadsWhatPlanWrites) {
  const std::string path = testing::TempDir() + "/doctor_plan_file.json";
  std::ofstream(path) << R"({"schema": "haypile.plan/1", "model": {"name": "m"}, "engine": "vllm",
      "engine_version": "0.32.0", "device": null, "parallel": {"tensor": 2},
      "memory": {"terms": [{"name": "weights", "bytes": -5}]},
      "plans": [{"kv_cache_dtype": "fp8", "resolved_kv_cache_dtype": "fp8_ds_mla", "bytes_per_token": 656,
                 "pool_bytes": 1000, "block_size": 64, "pool_tokens": 10, "refused": null}]})";
  const auto plan = ReadPlanFile(path);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->tensor_parallel, 2);
  EXPECT_EQ(plan->Term("weights"), -5);
  EXPECT_EQ(plan->Find("fp8_ds_mla"), plan->Find("fp8"));
  EXPECT_EQ(plan->Find("nvfp4"), nullptr);
}

TEST(DoctorPlanFile, RefusesWhatIsNoPlan) {
  const std::string path = testing::TempDir() + "/doctor_no_plan.json";
  for (const char* text :
       {"", "not JSON", "[]", "{}", R"({"schema": "haypile.plan/2"})", R"({"schema": "haypile.plan/1"})",
        R"({"schema": "haypile.plan/1", "plans": []})", R"({"schema": "haypile.plan/1", "plans": [1]})",
        R"({"schema": "haypile.plan/1", "plans": [{"bytes_per_token": "x"}]})"}) {
    std::ofstream(path) << text;
    EXPECT_EQ(ReadPlanFile(path).error().code(), ErrorCode::kMalformed) << text;
  }
  EXPECT_EQ(ReadPlanFile("no/such.json").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace haypile
