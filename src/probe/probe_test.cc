#include "probe/probe.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>

#include "base/json.h"
#include "calibrate/calibration_folder_test.h"
#include "calibrate/checkpoint_scales.h"
#include "compare/teacher_forced.h"
#include "engines/doctor_report.h"
#include "engines/doctor_schema_test.h"
#include "engines/local_server_test.h"
#include "probe/cutting_store.h"
#include "probe/probe_report.h"

namespace haypile {
namespace {

constexpr int64_t kTokens = 511;  // the model's 512, less the one that a server generates

KvScales SameScales(float k, float v) {
  const auto all = [](float scale) {
    return std::vector<std::vector<float>>(CalibrationFolder::kLayers,
                                           std::vector<float>(CalibrationFolder::kHeads, scale));
  };
  return {all(k), all(v)};
}

// A folder of a tiny model, and one beside it with KV scales that are far from any power of two times 1.0.
class Folders {
 public:
  Folders() {
    plain = folder_.Write("plain");
    scaled = WithScales("scaled", SameScales(0.37f, 5.3f));
  }
  std::string WithScales(const std::string& name, const KvScales& scales) const {
    CheckpointScalesRequest request;
    request.source = plain;
    request.target = folder_.Path(name);
    request.tool_version = "0";
    const Status written = WriteCheckpointScales(request, scales);
    EXPECT_TRUE(written.ok()) << written.error().message();
    return request.target;
  }
  const CalibrationFolder& folder() const { return folder_; }

  std::string plain, scaled;

 private:
  CalibrationFolder folder_;
};

const Folders& TheFolders() {
  static const Folders kFolders;
  return kFolders;
}

// What a server's cache is like.
struct ServerCache {
  KvDtype dtype;
  KvScales scales;
  bool cuts = false;  // its store
};

// Log-probabilities that a server with this cache would return for the tokens that it was sent.
class ServerModel {
 public:
  explicit ServerModel(ServerCache cache) : session_(Session::Load(TheFolders().plain, 2).value()) {
    lanes_.resize(2);
    lanes_[0].geometry = MakeKvGeometry(session_.spec(), KvDtype{}).value();
    lanes_[1].dtype = cache.dtype;
    lanes_[1].scales = cache.scales;
    lanes_[1].geometry = MakeKvGeometry(session_.spec(), cache.dtype).value();
    if (!cache.cuts) return;
    store_ = std::make_unique<CuttingStore>(session_.spec(), cache.dtype, cache.scales);
    session_.model->set_kv_rewriter(store_.get());
  }
  std::vector<double> LogProbs(const std::vector<int32_t>& tokens) {
    std::vector<double> log_probs;
    const auto rows = RunTeacherForced(session_, lanes_, tokens, [](int64_t) {}).value();
    for (const RowDivergence& row : rows[0]) log_probs.push_back(-row.candidate_nll);
    return log_probs;
  }

 private:
  std::unique_ptr<CuttingStore> store_;
  Session session_;
  std::vector<Lane> lanes_;
};

// A running server as vLLM or SGLang answers, over a real socket.
class FakeServer {
 public:
  FakeServer(ServerCache cache, double noise, std::string owner = "vllm")
      : model_(std::move(cache)),
        noise_(noise),
        owner_(std::move(owner)),
        server_(".*", [this](const auto& a, auto& b) { Answer(a, b); }) {}

  std::string Url() const { return server_.Url(); }
  std::string key;  // that it wants; empty: none
  int64_t max_model_len = 512;
  std::string completion;  // instead of its own answer; empty: none

 private:
  void Answer(const httplib::Request& request, httplib::Response& response) {
    if (!key.empty() && request.get_header_value("Authorization") != "Bearer " + key) {
      response.status = 401;
      response.set_content(R"({"error":"Unauthorized"})", "application/json");
      return;
    }
    const Json answer = request.path == "/v1/models"
                            ? Json{{"data", {{{"id", "m"}, {"owned_by", owner_}, {"max_model_len", max_model_len}}}}}
                            : Scored(request);
    response.set_content(completion.empty() || request.path == "/v1/models" ? answer.dump() : completion,
                         "application/json");
  }

  Json Scored(const httplib::Request& request) {
    const bool sglang = request.path == "/generate";
    EXPECT_EQ(sglang, owner_ == "sglang");
    const Json body = ParseJson(request.body).value();
    const auto tokens = body[sglang ? "input_ids" : "prompt"].get<std::vector<int32_t>>();
    std::mt19937 random(11);
    std::normal_distribution<double> normal(0, 1);
    Json values{nullptr}, names{"token_id:" + std::to_string(tokens[0])};
    Json triples = Json::array({Json::array({nullptr, tokens[0], nullptr})});
    for (const double log_prob : model_.LogProbs(tokens)) {
      const int32_t token = tokens[values.size()];
      values.push_back(std::min(0.0, log_prob + noise_ * normal(random)));
      names.push_back("token_id:" + std::to_string(token));
      triples.push_back({values.back(), token, nullptr});
    }
    if (sglang) return {{"meta_info", {{"prompt_tokens", tokens.size()}, {"input_token_logprobs", triples}}}};
    values.push_back(-1.0);  // the generated one
    names.push_back("token_id:3");
    return {{"choices", {{{"logprobs", {{"token_logprobs", values}, {"tokens", names}}}}}},
            {"usage", {{"prompt_tokens", tokens.size()}}}};
  }

  ServerModel model_;
  double noise_;
  std::string owner_;
  LocalServer server_;
};

const KvDtype kFp8{KvFormat::kFp8E4m3, KvFormat::kFp8E4m3};

ProbeRequest RequestTo(const FakeServer& server, const std::string& checkpoint) {
  ProbeRequest request;
  request.server.url = server.Url();
  request.server.answer_s = 300;
  request.checkpoint = checkpoint;
  request.threads = 2;
  return request;
}

ProbeResult Probed(const FakeServer& server, const std::string& checkpoint) {
  auto result = RunProbe(RequestTo(server, checkpoint), {});
  EXPECT_TRUE(result.ok()) << result.error().message();
  return std::move(result).value();
}

// Everything that the doctor says of a probe, and that it keeps to the schema.
std::string SaidOf(const ProbeResult& result) {
  DoctorReport report;
  report.findings = {ProbeFinding(result)};
  Json document = DoctorJson("0", report);
  document["probe"] = ProbeJson(result);
  EXPECT_EQ(Breaches(document), "");
  std::string said = report.findings[0].id + " " + report.findings[0].what + "\n";
  for (const LogLine& line : report.findings[0].evidence) said += line.text + "\n";
  for (const std::string& line : ProbeHead(result)) said += line + "\n";
  return said + ProbeTable(result).Render(100, false);
}

// A third of what the two caches differ by.
double ModerateNoise() {
  static const double kNoise = [] {
    const FakeServer server({kFp8, {}}, 0);
    const ProbeResult result = Probed(server, TheFolders().scaled);
    return std::sqrt(result.judgement.Pair(ProbeCache::kUnitScales, ProbeCache::kFileScales).separation) / 3;
  }();
  return kNoise;
}

TEST(Probe, EachCacheOfAServerIsTold) {
  ASSERT_GT(ModerateNoise(), 1e-4);
  struct Case {
    ServerCache cache;
    ProbeVerdict verdict;
    std::string id;
  };
  for (const char* owner : {"vllm", "sglang"}) {
    for (const Case& wanted :
         {Case{{kFp8, SameScales(0.37f, 5.3f)}, ProbeVerdict::kScalesLoaded, "probe.scales_loaded"},
          Case{{kFp8, {}}, ProbeVerdict::kUnitScales, "probe.runs_at_one"},
          Case{{KvDtype{}, {}}, ProbeVerdict::kNotQuantized, "probe.not_quantized"}}) {
      const FakeServer server(wanted.cache, ModerateNoise(), owner);
      const ProbeResult result = Probed(server, TheFolders().scaled);
      EXPECT_EQ(result.judgement.verdict, wanted.verdict) << SaidOf(result);
      EXPECT_EQ(result.judgement.rows, kTokens - 1);
      EXPECT_TRUE(result.ids_confirmed);
      EXPECT_TRUE(SaidOf(result).starts_with(wanted.id)) << SaidOf(result);
      EXPECT_NE(SaidOf(result).find("K 0.37 to 0.37, V 5.3 to 5.3"), std::string::npos) << SaidOf(result);
    }
  }
}

// As vLLM 0.32 stores FP8 on CPUs: no run that rounds is like it.
TEST(Probe, AStoreThatCutsIsTold) {
  for (const bool loaded : {true, false}) {
    const FakeServer server({kFp8, loaded ? SameScales(0.37f, 5.3f) : KvScales{}, true}, ModerateNoise());
    double passes = 0;
    const auto result = RunProbe(RequestTo(server, TheFolders().scaled),
                                 [&](double done, double, const std::string&) { passes = done; });
    ASSERT_TRUE(result.ok()) << result.error().message();
    EXPECT_EQ(result->judgement.verdict, loaded ? ProbeVerdict::kScalesLoaded : ProbeVerdict::kUnitScales)
        << SaidOf(*result);
    EXPECT_EQ(result->judgement.distances.size(), 5U);
    EXPECT_EQ(passes, 2.0 * (kTokens - 1));
    EXPECT_NE(SaidOf(*result).find(loaded ? "fp8_e4m3 at the file's scales, cut" : "fp8_e4m3 at 1.0, cut"),
              std::string::npos);
    EXPECT_NE(SaidOf(*result).find("instead of rounding"), std::string::npos);
  }
}

TEST(Probe, NoiseThatDrownsTheDifferenceLeavesItOpen) {
  const FakeServer server({kFp8, SameScales(0.37f, 5.3f)}, 60 * ModerateNoise());
  const ProbeResult result = Probed(server, TheFolders().scaled);
  EXPECT_EQ(result.judgement.verdict, ProbeVerdict::kCannotTell);
  EXPECT_TRUE(SaidOf(result).starts_with("probe.cannot_tell")) << SaidOf(result);
}

// Scales that are neither the file's nor 1.0, as those made at the start.
TEST(Probe, OtherScalesFitNone) {
  const FakeServer server({kFp8, SameScales(0.6f, 2.9f)}, 0);
  const ProbeResult result = Probed(server, TheFolders().scaled);
  EXPECT_EQ(result.judgement.verdict, ProbeVerdict::kCannotTell) << SaidOf(result);
}

TEST(Probe, ScalesThatChangeNothingAreSaidToChangeNothing) {
  const std::string folder = TheFolders().WithScales("ones", SameScales(1, 1));
  const FakeServer server({kFp8, {}}, ModerateNoise());
  const ProbeResult result = Probed(server, folder);
  EXPECT_EQ(result.judgement.doubt, ProbeDoubt::kSameRuns);
  EXPECT_NE(SaidOf(result).find("the very same log-probabilities"), std::string::npos);
  EXPECT_NE(SaidOf(result).find("Ruled out: bf16"), std::string::npos) << SaidOf(result);
}

TEST(Probe, ACheckpointWithoutScalesStillTellsQuantizedFromNot) {
  const FakeServer quantized({kFp8, {}}, ModerateNoise());
  const ProbeResult at_one = Probed(quantized, TheFolders().plain);
  EXPECT_EQ(at_one.judgement.verdict, ProbeVerdict::kUnitScales);
  EXPECT_EQ(at_one.judgement.distances.size(), 2U);
  EXPECT_EQ(at_one.dtype.source, ProbeDtypeSource::kAssumed);
  EXPECT_NE(SaidOf(at_one).find("holds no KV scales that could be loaded"), std::string::npos) << SaidOf(at_one);
  const FakeServer plain({KvDtype{}, {}}, ModerateNoise());
  EXPECT_EQ(Probed(plain, TheFolders().plain).judgement.verdict, ProbeVerdict::kNotQuantized);
}

TEST(Probe, ADtypeWithScalesOfItsOwn) {
  const KvDtype int8{KvFormat::kInt8PerTokenHead, KvFormat::kInt8PerTokenHead};
  const FakeServer server({int8, {}}, ModerateNoise() / 30);
  ProbeRequest request = RequestTo(server, TheFolders().scaled);
  request.dtype.flag = "int8_per_token_head";
  const auto result = RunProbe(request, {});
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_TRUE(SaidOf(*result).starts_with("probe.quantized")) << SaidOf(*result);
}

TEST(Probe, AnotherModelsAnswersAreNoVerdict) {
  FakeServer server({kFp8, {}}, 3.0);
  const ProbeResult result = Probed(server, TheFolders().scaled);
  EXPECT_EQ(result.judgement.doubt, ProbeDoubt::kOtherModel) << SaidOf(result);
}

TEST(Probe, TheCountOfTokensIsHeldToWhatFits) {
  FakeServer server({kFp8, {}}, 0);
  server.max_model_len = 301;
  EXPECT_EQ(Probed(server, TheFolders().plain).tokens, 300);
  ProbeRequest request = RequestTo(server, TheFolders().plain);
  request.tokens = 301;
  auto refused = RunProbe(request, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kOutOfBudget);
  EXPECT_NE(refused.error().message().find("the server takes 300"), std::string::npos) << refused.error().message();
  server.max_model_len = 100;
  refused = RunProbe(RequestTo(server, TheFolders().plain), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kOutOfBudget);
}

TEST(Probe, KeysAreSentAndWantedOnesNamed) {
  FakeServer server({kFp8, {}}, 0);
  server.key = "secret";
  ProbeRequest request = RequestTo(server, TheFolders().plain);
  request.tokens = kLeastProbeTokens;
  const auto refused = RunProbe(request, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNetwork);
  EXPECT_NE(refused.error().message().find("--api-key"), std::string::npos);
  request.server.api_key = "secret";
  EXPECT_TRUE(RunProbe(request, {}).ok());
  request.server.api_key = "secret\r\nX-More: 1";
  EXPECT_EQ(RunProbe(request, {}).error().code(), ErrorCode::kInvalidArgument);
}

// As llama-server answers: the generated token's log-probability alone.
TEST(Probe, AServerThatDoesNotReturnAPromptsLogProbabilities) {
  FakeServer server({kFp8, {}}, 0);
  server.completion = R"({"choices":[{"logprobs":{"content":[{"id":3,"token":"x","logprob":-1.5}]}}]})";
  const auto refused = RunProbe(RequestTo(server, TheFolders().plain), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNetwork);
  EXPECT_NE(refused.error().message().find("llama-perplexity"), std::string::npos) << refused.error().message();
}

TEST(Probe, CheckpointsThatCannotBeCompared) {
  const FakeServer server({kFp8, {}}, 0);
  const auto missing = RunProbe(RequestTo(server, TheFolders().plain + "-none"), {});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound) << missing.error().message();
  const std::string broken = TheFolders().WithScales("zeros", SameScales(0, 1));
  const auto zeros = RunProbe(RequestTo(server, broken), {});
  ASSERT_FALSE(zeros.ok());
  EXPECT_EQ(zeros.error().code(), ErrorCode::kMalformed) << zeros.error().message();
  const std::string other = TheFolders().folder().Write("other");
  const std::string config = ReadFile(other + "/config.json").value();
  std::string changed = config;
  changed.replace(changed.find("LlamaForCausalLM"), 16, "MambaForCausalLM");
  changed.replace(changed.find("\"llama\""), 7, "\"mamba\"");
  ASSERT_TRUE(WriteFileAtomic(other + "/config.json", changed).ok());
  const auto unsupported = RunProbe(RequestTo(server, other), {});
  ASSERT_FALSE(unsupported.ok());
  EXPECT_EQ(unsupported.error().code(), ErrorCode::kUnsupported) << unsupported.error().message();
  EXPECT_NE(unsupported.error().message().find("llama"), std::string::npos) << unsupported.error().message();
}

TEST(Probe, ProgressCountsEveryTokenPass) {
  const FakeServer server({kFp8, {}}, 0);
  double last = 0, total = 0;
  const auto result =
      RunProbe(RequestTo(server, TheFolders().scaled), [&](double done, double all, const std::string&) {
        EXPECT_GE(done, last);
        last = done;
        total = all;
      });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(last, 4.0 * (kTokens - 1));
  EXPECT_EQ(total, last);
}

TEST(ProbeDtype, TheFirstHintThatNamesOneCounts) {
  const auto chosen = [](const ProbeDtypeHints& hints) { return ChooseProbeDtype(hints).value(); };
  const KvDtype e5m2{KvFormat::kFp8E5m2, KvFormat::kFp8E5m2};
  EXPECT_EQ(chosen({"fp8_e5m2", "fp8", "fp8", true}).dtype, e5m2);
  EXPECT_EQ(chosen({"auto", "fp8_e5m2", "fp8", true}).source, ProbeDtypeSource::kLog);
  EXPECT_EQ(chosen({"", "torch.float8_e5m2", "", false}).dtype, e5m2);
  EXPECT_EQ(chosen({"auto", "", "fp8", false}).source, ProbeDtypeSource::kCheckpoint);
  EXPECT_EQ(chosen({"", "auto", "", true}).source, ProbeDtypeSource::kCheckpoint);
  EXPECT_EQ(chosen({}).source, ProbeDtypeSource::kAssumed);
  EXPECT_EQ(chosen({}).dtype, kFp8);
  for (const char* name : {"fp8", "FP8_E4M3", "fp8_e4m3fn", "torch.float8_e4m3fn"}) {
    EXPECT_EQ(chosen({name, "", "", false}).dtype, kFp8) << name;
  }
  for (const char* name : {"bfloat16", "bf16", "half", "float16"}) {
    EXPECT_TRUE(chosen({name, "", "", false}).said_unquantized) << name;
    EXPECT_EQ(chosen({name, "", "", false}).dtype, kFp8) << name;
  }
  const auto unknown = ChooseProbeDtype({"fp7", "", "", false});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(unknown.error().message().find("--kv-cache-dtype"), std::string::npos);
}

}  // namespace
}  // namespace haypile
