// The damage of each KV format on the two known models against reference measurements made with another
// implementation: keys and values rounded through the format in float32, the first 1,024 tokens of essays.txt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>

#include "compare/capacity.h"
#include "compare/teacher_forced.h"
#include "evaluate/evaluation_text.h"

namespace haypile {
namespace {

std::string ModelPath(const std::string& name) {
  const char* cache = std::getenv("HAYPILE_CACHE");
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder = cache != nullptr  ? cache
                             : xdg != nullptr  ? std::string(xdg) + "/haypile"
                             : home != nullptr ? std::string(home) + "/.cache/haypile"
                                               : ".";
  return folder + "/models/" + name + ".gguf";
}

// Mean KL of every dtype against bf16.
std::map<std::string, double> MeasureKl(const std::string& model, const std::string& dtypes, size_t tokens) {
  const Session session = Session::Load(ModelPath(model), 0).value();
  CompareRequest request;
  request.dtypes = ParseDtypeList(dtypes).value();
  const std::vector<Lane> lanes = MakeLanes(session.spec(), request).value();
  std::vector<int32_t> ids = session.EncodeWithBos(EvaluationText("essays"));
  ids.resize(tokens);
  const auto rows = RunTeacherForced(session, lanes, ids, [](int64_t) {}).value();
  std::map<std::string, double> kl;
  for (size_t lane = 0; lane < rows.size(); ++lane) {
    const double sum = std::accumulate(rows[lane].begin(), rows[lane].end(), 0.0,
                                       [](double total, const RowDivergence& row) { return total + row.kl; });
    const std::string name = lane + 1 < lanes.size() ? lanes[lane + 1].dtype.Name() : "noise";
    kl[name] = sum / static_cast<double>(rows[lane].size());
  }
  return kl;
}

constexpr const char* kDtypes = "bf16,q8_0,fp8_e4m3,fp8_e5m2,q8_0/nvfp4_4over6,nvfp4_4over6,nvfp4,mxfp4";

void ExpectTheOrderOfTheory(const std::map<std::string, double>& kl) {
  EXPECT_LT(kl.at("fp8_e4m3"), kl.at("fp8_e5m2"));
  EXPECT_LT(kl.at("nvfp4_4over6"), kl.at("nvfp4"));
  EXPECT_LT(kl.at("nvfp4"), kl.at("mxfp4"));
  EXPECT_LE(kl.at("q8_0/nvfp4_4over6"), kl.at("fp8_e4m3"));
  EXPECT_LE(kl.at("q8_0"), kl.at("fp8_e4m3") / 3);
}

// Within a factor of 1.5, give or take what BF16 arithmetic alone does (.001 on these models).
void ExpectNear(const std::map<std::string, double>& kl, const std::map<std::string, double>& reference) {
  constexpr double kFactor = 1.5, kNoise = 0.001;
  for (const auto& [dtype, expected] : reference) {
    EXPECT_LT(kl.at(dtype), expected * kFactor + kNoise) << dtype;
    EXPECT_GT(kl.at(dtype), expected / kFactor - kNoise) << dtype;
  }
}

TEST(KlReference, SlowSmolLm2) {
  if (!std::filesystem::exists(ModelPath("smollm2-135m"))) GTEST_SKIP() << "needs haypile model get smollm2-135m";
  const auto kl = MeasureKl("smollm2-135m", kDtypes, 1024);
  for (const auto& [dtype, value] : kl) RecordProperty(dtype, std::to_string(value));
  ExpectTheOrderOfTheory(kl);
  ExpectNear(kl, {{"q8_0", .0003}, {"fp8_e4m3", .0062}, {"q8_0/nvfp4_4over6", .0056}, {"nvfp4_4over6", .0612}});
}

TEST(KlReference, SlowGemma3) {
  if (!std::filesystem::exists(ModelPath("gemma3-270m"))) GTEST_SKIP() << "needs haypile model get gemma3-270m";
  const auto kl = MeasureKl("gemma3-270m", kDtypes, 1024);
  for (const auto& [dtype, value] : kl) RecordProperty(dtype, std::to_string(value));
  ExpectTheOrderOfTheory(kl);
  ExpectNear(kl, {{"q8_0", .0005}, {"fp8_e4m3", .0060}, {"q8_0/nvfp4_4over6", .0050}, {"nvfp4_4over6", .0491}});
}

}  // namespace
}  // namespace haypile
