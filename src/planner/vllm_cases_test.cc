#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "planner/model_config.h"
#include "planner/pool_plan.h"

namespace haypile {
namespace {

// Starts of a real vLLM (CPU build, dummy weights): config, flags, and what it printed.
struct RealRun {
  std::string id;
  PlanRequest request;
  std::string config;
  Json json;
};

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The handed configs stand with those of the config reader, the others beside the runs.
std::string ReadConfig(const std::string& name) {
  const std::string handed = ReadText(std::string(HAYPILE_TESTDATA_DIR) + "/configs/vllm-pools/" + name);
  return handed.empty() ? ReadText(std::string(HAYPILE_TESTDATA_DIR) + "/vllm_pools/configs/" + name) : handed;
}

// Engine flags as the runs carry them.
void ApplyFlags(const std::vector<std::string>& args, PlanRequest& request) {
  for (size_t i = 0; i < args.size(); ++i) {
    const auto value = [&] { return args.at(++i); };
    if (args[i] == "--block-size") {
      request.block_size = std::stoll(value());
    } else if (args[i] == "--max-num-batched-tokens") {
      request.max_num_batched_tokens = std::stoll(value());
    } else if (args[i] == "--enable-prefix-caching") {
      request.prefix_caching = true;
    } else if (args[i] == "--no-enable-prefix-caching") {
      request.prefix_caching = false;
    } else if (args[i] == "--disable-hybrid-kv-cache-manager") {
      request.hybrid_kv_cache_manager = false;
    } else if (args[i] == "--num-gpu-blocks-override") {
      request.num_gpu_blocks_override = std::stoll(value());
    } else if (args[i] == "--mamba-cache-mode") {
      request.mamba_cache_mode = value();
    } else if (args[i] == "--mamba-cache-dtype") {
      request.mamba_cache_dtype = value();
    } else if (args[i] == "--mamba-ssm-cache-dtype") {
      request.mamba_ssm_cache_dtype = value();
    } else if (args[i] == "--kv-cache-dtype-skip-layers") {
      while (i + 1 < args.size() && !args[i + 1].starts_with("--")) request.skip_layers.push_back(args[++i]);
    } else {
      ADD_FAILURE() << "flag not understood: " << args[i];
    }
  }
}

std::vector<RealRun> ReadRuns(const std::string& file) {
  std::vector<RealRun> runs;
  std::stringstream lines(ReadText(std::string(HAYPILE_TESTDATA_DIR) + "/vllm_pools/" + file));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    RealRun run;
    run.json = *ParseJson(line);
    run.id = run.json["id"].get<std::string>();
    run.config = run.json["config"].get<std::string>();
    run.request.version = {0, 32, 0};
    run.request.device = DeviceKind::kCpu;
    run.request.kv_cache_dtype = run.json["kv_cache_dtype"].get<std::string>();
    run.request.pool_bytes_per_rank = {run.json["kv_cache_memory_bytes"].get<int64_t>()};
    run.request.max_model_len = run.json["max_model_len"].get<int64_t>();
    run.request.max_num_seqs = run.json["max_num_seqs"].get<int64_t>();
    run.request.max_num_batched_tokens = run.json["max_num_batched_tokens"].get<int64_t>();
    ApplyFlags(run.json["args"].get<std::vector<std::string>>(), run.request);
    runs.push_back(std::move(run));
  }
  return runs;
}

void ExpectRefusal(const RealRun& run, const PoolPlan& plan) {
  ASSERT_TRUE(plan.refused.has_value()) << "planned " << plan.pool_tokens << " tokens";
  if (run.json.contains("estimated_max_model_len")) {
    EXPECT_EQ(plan.refused->estimated_max_model_len, run.json["estimated_max_model_len"].get<int64_t>());
  }
  for (const char* key : {"needed", "available"}) {
    if (!run.json.contains(key)) continue;
    const std::string gib = run.json[key].get<std::string>();
    EXPECT_NE(plan.refused->reason.find(gib), std::string::npos) << gib << " in: " << plan.refused->reason;
  }
  if (run.json.contains("reason")) {
    const std::string reason = run.json["reason"].get<std::string>();
    EXPECT_NE(plan.refused->reason.find(reason), std::string::npos) << reason << " in: " << plan.refused->reason;
  }
}

void ExpectRun(const RealRun& run) {
  SCOPED_TRACE(run.json.dump());
  const Result<ModelGeometry> model = ParseModelConfig(ReadConfig(run.config), run.config);
  ASSERT_TRUE(model.ok()) << model.error().message();
  const Result<PoolPlan> plan = PlanVllmPool(*model, run.request);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  for (const Json& line : run.json.value("log", Json::array())) {
    const std::string text = line.get<std::string>();
    EXPECT_NE(std::find(plan->log_lines.begin(), plan->log_lines.end(), text), plan->log_lines.end())
        << "no line: " << text << "\nbut:\n"
        << fmt::format("{}", [&] {
             std::string all;
             for (const auto& l : plan->log_lines) all += "  " + l + "\n";
             return all;
           }());
  }
  int64_t shared = 0;
  for (const ByteShare& share : plan->shares) shared += share.bytes;
  if (!plan->refused || !plan->shares.empty()) {
    EXPECT_EQ(shared, plan->pool_bytes);
  }
  if (run.json.value("refused", false)) return ExpectRefusal(run, *plan);
  ASSERT_FALSE(plan->refused.has_value()) << plan->refused->reason;
  EXPECT_EQ(plan->pool_tokens, run.json["tokens"].get<int64_t>());
  EXPECT_EQ(fmt::format("{:.2f}", plan->max_concurrency), fmt::format("{:.2f}", run.json["concurrency"].get<double>()));
}

TEST(VllmCases, SixtyRealRunsToTheToken) {
  const std::vector<RealRun> runs = ReadRuns("real_runs.jsonl");
  EXPECT_EQ(runs.size(), 60u);
  for (const RealRun& run : runs) ExpectRun(run);
}

// Other architectures and flags, made in the same way or by the engine's own planner on a model without weights.
TEST(VllmCases, MoreRealRunsToTheToken) {
  const std::vector<RealRun> runs = ReadRuns("more_runs.jsonl");
  EXPECT_GT(runs.size(), 200u);
  for (const RealRun& run : runs) ExpectRun(run);
}

}  // namespace
}  // namespace haypile
