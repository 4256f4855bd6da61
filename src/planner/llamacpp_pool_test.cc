#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>

#include "base/json.h"
#include "planner/known_geometry_test.h"
#include "planner/llamacpp_types.h"
#include "planner/pool_plan.h"
#include "spec/kv_geometry.h"

namespace haypile {
namespace {

// llama-server's command line as a request.
PlanRequest RequestOf(const std::vector<std::string>& args) {
  PlanRequest request;
  request.engine = EngineKind::kLlamacpp;
  request.version = {9749, 0, 0};
  request.device = DeviceKind::kCpu;
  std::string k = "f16", v = "f16";
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& flag = args[i];
    const auto text = [&] { return args.at(++i); };
    const auto number = [&] { return std::stoll(args.at(++i)); };
    if (flag == "-c") {
      request.context_size = number();
    } else if (flag == "-np") {
      request.parallel_slots = static_cast<int>(number());
    } else if (flag == "-b") {
      request.batch = number();
    } else if (flag == "-ub") {
      request.ubatch = number();
    } else if (flag == "-ctk") {
      k = text();
    } else if (flag == "-ctv") {
      v = text();
    } else if (flag == "-fa") {
      request.flash_attention = text();
    } else if (flag == "-kvu") {
      request.kv_unified = true;
    } else if (flag == "--swa-full") {
      request.swa_full = true;
    } else {
      ADD_FAILURE() << "flag " << flag;
    }
  }
  request.kv_cache_dtype = k == v ? k : k + "/" + v;
  return request;
}

ModelGeometry ModelOf(const std::string& name) {
  if (name == "gemma3-270m") return Gemma270m();
  EXPECT_EQ(name, "smollm2-135m");
  return SmolLm135m();
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

PoolPlan Plan(const ModelGeometry& model, const std::vector<std::string>& args) {
  auto plan = PlanLlamacppPool(model, RequestOf(args));
  EXPECT_TRUE(plan.ok()) << plan.error().message();
  return plan.value();
}

int64_t ShareSum(const PoolPlan& plan) {
  return std::accumulate(plan.shares.begin(), plan.shares.end(), int64_t{0},
                         [](int64_t sum, const ByteShare& share) { return sum + share.bytes; });
}

class RealStarts : public testing::TestWithParam<const char*> {};

TEST_P(RealStarts, PrintWhatThePlanSays) {
  std::ifstream file(std::string(HAYPILE_TESTDATA_DIR "/llamacpp_pools/") + GetParam());
  ASSERT_TRUE(file.is_open());
  int cases = 0;
  for (std::string text; std::getline(file, text); ++cases) {
    const Json row = ParseJson(text).value();
    const auto args = row["args"].get<std::vector<std::string>>();
    const PoolPlan plan = Plan(ModelOf(row["model"].get<std::string>()), args);
    EXPECT_FALSE(plan.refused.has_value());
    EXPECT_EQ(Joined(plan.log_lines), Joined(row["log"].get<std::vector<std::string>>())) << row["id"];
    EXPECT_EQ(ShareSum(plan), plan.pool_bytes) << row["id"];
  }
  EXPECT_GT(cases, 4);
}
INSTANTIATE_TEST_SUITE_P(Files, RealStarts, testing::Values("cases.jsonl", "logs.jsonl"));

TEST(LlamacppPool, SharesFormatsWithTheCache) {
  for (const auto& [name, format] : std::vector<std::pair<std::string, KvFormat>>{
           {"f16", KvFormat::kFp16}, {"bf16", KvFormat::kBf16}, {"q8_0", KvFormat::kQ8_0}, {"q4_0", KvFormat::kQ4_0}}) {
    EXPECT_EQ(FindLlamacppType(name)->RowBytes(128), RowBytes(format, 128)) << name;
  }
  EXPECT_EQ(FindLlamacppType("q5_1")->RowBytes(64), 48);    // 0.75 bytes an element
  EXPECT_EQ(FindLlamacppType("iq4_nl")->RowBytes(64), 36);  // 0.5625
  EXPECT_EQ(FindLlamacppType("f32")->RowBytes(10), 40);
  EXPECT_FALSE(FindLlamacppType("nvfp4").has_value());
}

TEST(LlamacppPool, SharesOneStreamBetweenSlots) {
  const PoolPlan plan = Plan(Gemma270m(), {"-c", "5000", "-np", "3", "-kvu"});
  EXPECT_EQ(plan.pool_tokens, 5120);  // one stream, padded to 256
  EXPECT_EQ(plan.max_model_len, 5120);
  EXPECT_DOUBLE_EQ(plan.max_concurrency, 1.0);
  // Three windows of 512 and a micro-batch of 512.
  EXPECT_NE(Joined(plan.log_lines).find("creating     SWA KV cache, size = 2048 cells"), std::string::npos);
  EXPECT_NE(Joined(plan.log_lines).find("3/1 seqs"), std::string::npos);
}

TEST(LlamacppPool, BoundsTheMicroBatchByBatchAndContext) {
  const auto window_cells = [](const std::vector<std::string>& args) {
    const std::string log = Joined(Plan(Gemma270m(), args).log_lines);
    const size_t at = log.find("SWA KV cache, size = ", log.find("    SWA"));
    return std::stoll(log.substr(at + 21));
  };
  EXPECT_EQ(window_cells({"-c", "8192", "-np", "1", "-b", "128"}), 768);     // 512 + 128, padded
  EXPECT_EQ(window_cells({"-c", "8192", "-np", "1", "-ub", "4096"}), 2560);  // the batch's 2048 bounds it
  EXPECT_EQ(window_cells({"-c", "8192", "-np", "1", "-ub", "0"}), 2560);     // 0: as the batch
  EXPECT_EQ(window_cells({"-c", "100", "-np", "1"}), 256);                   // never more than the stream
  EXPECT_EQ(window_cells({"-c", "8192", "-np", "1", "-b", "4096", "-ub", "3000"}), 3584);
  EXPECT_EQ(window_cells({"-c", "8192", "-np", "1", "--swa-full"}), 8192);
}

TEST(LlamacppPool, CapsSlotsAtTheModelsContext) {
  const PoolPlan plan = Plan(SmolLm135m(), {"-c", "16384", "-np", "1"});
  const std::string log = Joined(plan.log_lines);
  EXPECT_NE(log.find("n_ctx_seq (16384) > n_ctx_train (8192) -- possible training context overflow"),
            std::string::npos);
  EXPECT_NE(log.find("n_slots = 1, n_ctx_slot = 8192, kv_unified = 'false'"), std::string::npos);
  EXPECT_EQ(plan.pool_tokens, 16384);
  EXPECT_EQ(plan.max_model_len, 8192);
}

TEST(LlamacppPool, RefusesWhatTheServerRefuses) {
  const auto reason = [](const ModelGeometry& model, const std::vector<std::string>& args) {
    const PoolPlan plan = Plan(model, args);
    return plan.refused ? plan.refused->reason : std::string();
  };
  EXPECT_NE(reason(SmolLm135m(), {"-ctv", "q8_0", "-fa", "off"}).find("requires flash_attn"), std::string::npos);
  EXPECT_EQ(reason(SmolLm135m(), {"-ctk", "q8_0", "-fa", "off"}), "");  // only V needs it
  EXPECT_EQ(reason(SmolLm135m(), {"-ctk", "nvfp4"}), "Unsupported cache type: nvfp4");
  EXPECT_EQ(reason(SmolLm135m(), {"-np", "257"}), "n_seq_max must be <= 256");
  const ModelGeometry odd = DenseModel("exaone", "exaone", 30, 8, 80, 4096);
  EXPECT_NE(reason(odd, {"-ctk", "q8_0"}).find("block size 32 does not divide n_embd_head_k=80"), std::string::npos);
  EXPECT_EQ(reason(odd, {}), "");
  EXPECT_NE(reason(LatentModel(), {"-ctk", "q8_0"}).find("same"), std::string::npos);
}

TEST(LlamacppPool, NamesWhatItDoesNotUnderstand) {
  EXPECT_EQ(PlanLlamacppPool(LatentModel(128), RequestOf({})).error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(PlanLlamacppPool(SmolLm135m(), RequestOf({"-c", "-5"})).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanLlamacppPool(SmolLm135m(), RequestOf({"-c", "5000000000"})).error().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanLlamacppPool(SmolLm135m(), RequestOf({"-b", "0"})).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(PlanLlamacppPool(SmolLm135m(), RequestOf({"-fa", "maybe"})).error().code(), ErrorCode::kInvalidArgument);
}

TEST(LlamacppPool, PlansWithoutTheModelsContextWhenAsked) {
  ModelGeometry model = SmolLm135m();
  model.max_positions = 0;
  EXPECT_EQ(PlanLlamacppPool(model, RequestOf({"-np", "1"})).error().code(), ErrorCode::kInvalidArgument);
  const PoolPlan plan = Plan(model, {"-np", "1", "-c", "1000"});
  EXPECT_EQ(plan.max_model_len, 1024);
  EXPECT_EQ(Joined(plan.log_lines).find("n_ctx_train"), std::string::npos);
}

TEST(LlamacppPool, KeepsLatentRowsAsKeysAlone) {
  const PoolPlan plan = Plan(LatentModel(), {"-c", "4096", "-np", "1"});
  EXPECT_EQ(plan.bytes_per_token, 61 * 576 * 2);
  EXPECT_NE(Joined(plan.log_lines).find("V (f16):    0.00 MiB"), std::string::npos);
}

// The lines of a public start of this model with 131,072 cells for four slots.
TEST(LlamacppPool, PrintsTheStatesOfAHybrid) {
  const PoolPlan plan = Plan(Hybrid27b(), {"-c", "131072", "-ctk", "q8_0", "-ctv", "q8_0"});
  const std::string log = Joined(plan.log_lines);
  EXPECT_NE(log.find("size = 4352.00 MiB (131072 cells,  16 layers,  4/1 seqs), K (q8_0): 2176.00 MiB, V (q8_0): "
                     "2176.00 MiB"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("llama_memory_recurrent:        CPU RS buffer size =   598.50 MiB"), std::string::npos) << log;
  EXPECT_NE(log.find("R (f32):   22.50 MiB, S (f32):  576.00 MiB"), std::string::npos) << log;
}

// Public logs: cells, layers and the total that the engine printed.
TEST(LlamacppPool, AgreesWithPublicLogs) {
  const auto total = [](ModelGeometry model, int64_t cells, const std::string& type) {
    model.max_positions = 1 << 20;
    return Plan(model, {"-c", std::to_string(cells), "-np", "1", "-ctk", type, "-ctv", type}).used_bytes / 1048576.0;
  };
  EXPECT_EQ(total(DenseModel("llama-405b", "llama", 126, 8, 128, 0), 4096, "f16"), 2016.0);
  EXPECT_EQ(total(DenseModel("ui-venus-8b", "qwen3_vl", 36, 8, 128, 0), 8192, "f16"), 1152.0);
  EXPECT_EQ(total(DenseModel("ui-venus-8b", "qwen3_vl", 36, 8, 128, 0), 8192, "q8_0"), 612.0);
  EXPECT_EQ(total(DenseModel("28 layers", "llama", 28, 8, 128, 0), 1024, "f16"), 112.0);
  EXPECT_EQ(total(DenseModel("phi-3-mini", "phi3", 32, 32, 96, 0), 4096, "f16"), 1536.0);
  EXPECT_EQ(total(DenseModel("llama-30b", "llama", 60, 52, 128, 0), 512, "f32"), 1560.0);
  EXPECT_EQ(total(DenseModel("28 layers", "llama", 28, 4, 128, 0), 2048, "f16"), 112.0);
  // 13 full and 39 sliding layers of 1,024 bytes a cell, window 2048: 416.00 and 97.50 MiB in 2,560 cells.
  ModelGeometry mixed = DenseModel("52 layers", "gemma3_text", 0, 1, 256, 1 << 20);
  for (int i = 0; i < 52; ++i) AddLayer(mixed, AttentionLayer(1, 256, i % 4 == 3 ? 0 : 2048));
  EXPECT_EQ(total(mixed, 32768, "f16"), 416.0 + 97.5);
  // gpt-oss-120b with every window kept whole: 9,216 MiB.
  ModelGeometry oss = DenseModel("gpt-oss-120b", "gpt_oss", 0, 8, 64, 131072);
  for (int i = 0; i < 36; ++i) AddLayer(oss, AttentionLayer(8, 64, i % 2 == 0 ? 128 : 0));
  EXPECT_EQ(Plan(oss, {"-c", "0", "-np", "1", "--swa-full"}).used_bytes, 9216LL << 20);
}

TEST(LlamacppPool, RefusesAPoolThatIsTooSmallAndNamesWhatFits) {
  PlanRequest request = RequestOf({"-c", "8192", "-np", "1"});
  request.pool_bytes_per_rank = {100 << 20};
  const PoolPlan plan = PlanLlamacppPool(SmolLm135m(), request).value();
  ASSERT_TRUE(plan.refused.has_value());
  EXPECT_EQ(plan.refused->estimated_max_model_len, (100 << 20) / 23040 / 256 * 256);
  request.context_size.reset();  // then the server lowers the context itself
  const PoolPlan lowered = PlanLlamacppPool(SmolLm135m(), request).value();
  EXPECT_FALSE(lowered.refused.has_value());
  EXPECT_EQ(lowered.pool_tokens, (100 << 20) / 23040 / 256 * 256);
  EXPECT_EQ(ShareSum(lowered), lowered.pool_bytes);
}

TEST(LlamacppPool, SumsWideValuesWithoutFlashAttention) {
  ModelGeometry model = DenseModel("uneven", "llama", 0, 1, 64, 4096);
  AddLayer(model, AttentionLayer(1, 64));
  AddLayer(model, AttentionLayer(2, 64));
  EXPECT_EQ(Plan(model, {"-c", "256", "-np", "1", "-fa", "off"}).bytes_per_token, 2 * (64 + 128) + 2 * (128 + 128));
  EXPECT_EQ(Plan(model, {"-c", "256", "-np", "1"}).bytes_per_token, 2 * 2 * (64 + 128));
}

}  // namespace
}  // namespace haypile
