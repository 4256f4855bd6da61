#include <gtest/gtest.h>

#include <set>

#include "inspect/report.h"

namespace haypile {
namespace {

TEST(EngineRulesTest, EveryRowHasASourceAndNoRowIsHidden) {
  std::set<std::string> unconditional;
  for (const EngineRule& rule : EngineRules()) {
    EXPECT_FALSE(rule.source.empty()) << rule.why;
    EXPECT_FALSE(rule.why.empty()) << rule.source;
    EXPECT_EQ(rule.all_of & rule.none_of, 0u) << rule.why;
    const std::string group = std::string(rule.engine) + " " + std::string(rule.versions);
    EXPECT_FALSE(unconditional.contains(group)) << "hidden by a row that always matches: " << rule.why;
    if (rule.families == 0 && rule.all_of == 0 && rule.none_of == 0 && rule.architectures.empty()) {
      unconditional.insert(group);
    }
  }
}

InspectReport ReportOf(KvScaleFamily family, const std::string& method, const std::string& kv) {
  InspectReport report;
  report.architecture = "LlamaForCausalLM";
  report.declaration.method = method;
  report.declaration.in_config = !method.empty();
  report.declaration.kv_in_config = kv;
  FamilySummary summary;
  summary.family = family;
  summary.prefix = "model.layers";
  summary.k_layers = summary.v_layers = {0};
  summary.example = "model.layers.0.self_attn.k_proj.k_scale";
  report.scales.push_back(summary);
  return report;
}

// Whatever names, method and dtype: each engine is spoken of.
TEST(EngineRulesTest, EveryEngineHasAnOutcomeForEveryCheckpoint) {
  const std::set<std::string> wanted = {"vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "Haypile"};
  for (int family = 0; family <= kKvScaleFamilies; ++family) {
    for (const char* method :
         {"", "compressed-tensors", "modelopt", "modelopt_fp4", "fp8", "quark", "awq", "fbgemm_fp8"}) {
      for (const char* kv : {"", "fp8", "nvfp4", "int8"}) {
        InspectReport report = ReportOf(static_cast<KvScaleFamily>(family % kKvScaleFamilies), method, kv);
        if (family == kKvScaleFamilies) report.scales.clear();
        std::set<std::string> engines;
        for (const EngineOutcome& outcome : OutcomesOf(report)) engines.insert(std::string(outcome.rule->engine));
        EXPECT_EQ(engines, wanted) << "family " << family << ", method " << method << ", cache " << kv;
      }
    }
  }
}

ScaleOutcome OutcomeOf(const InspectReport& report, std::string_view engine, std::string_view versions) {
  for (const EngineOutcome& outcome : OutcomesOf(report)) {
    if (outcome.rule->engine == engine && outcome.rule->versions == versions) return outcome.rule->outcome;
  }
  return ScaleOutcome::kNotApplicable;
}

TEST(EngineRulesTest, ConventionDecidesOnNvfp4) {
  InspectReport report = ReportOf(KvScaleFamily::kProjection, "modelopt", "nvfp4");
  report.convention = "amax/448";
  EXPECT_EQ(OutcomeOf(report, "SGLang", "from 2026-08"), ScaleOutcome::kWrong);
  EXPECT_EQ(OutcomeOf(report, "TensorRT-LLM", "from 2026-04"), ScaleOutcome::kLoaded);
  report.convention = "amax/2688";
  EXPECT_EQ(OutcomeOf(report, "SGLang", "from 2026-08"), ScaleOutcome::kLoaded);
  EXPECT_EQ(OutcomeOf(report, "TensorRT-LLM", "from 2026-04"), ScaleOutcome::kWrong);
  report.convention = "amax/448 or amax/2688";
  EXPECT_EQ(OutcomeOf(report, "SGLang", "from 2026-08"), ScaleOutcome::kUnknown);
}

TEST(EngineRulesTest, ModulesDecideWhatVllmMaps) {
  InspectReport report = ReportOf(KvScaleFamily::kProjection, "modelopt", "fp8");
  EXPECT_EQ(OutcomeOf(report, "vLLM", "0.27 to 0.28"), ScaleOutcome::kRenamed);
  report.scales[0].example = "transformer.h.0.attn.k_proj.k_scale";
  EXPECT_EQ(OutcomeOf(report, "vLLM", "0.27 to 0.28"), ScaleOutcome::kDropped);
  report.scales[0].example = "backbone.layers.5.mixer.k_proj.k_scale";
  EXPECT_EQ(OutcomeOf(report, "vLLM", "0.27 to 0.28"), ScaleOutcome::kRenamed);
}

TEST(EngineRulesTest, HaypileLoadsScalesOfPlainWeights) {
  InspectReport report = ReportOf(KvScaleFamily::kAttention, "compressed-tensors", "fp8");
  EXPECT_EQ(OutcomeOf(report, "Haypile", "0.1"), ScaleOutcome::kRefused) << "weights are quantized";
  report.declaration.kv_only = true;
  EXPECT_EQ(OutcomeOf(report, "Haypile", "0.1"), ScaleOutcome::kLoaded);
  report.scales[0].v.zeros = 1;
  EXPECT_EQ(OutcomeOf(report, "Haypile", "0.1"), ScaleOutcome::kRefused);
}

TEST(EngineRulesTest, GlmMoeOfEarly2026StopsAtTheStackedName) {
  InspectReport report = ReportOf(KvScaleFamily::kProjection, "modelopt", "nvfp4");
  report.architecture = "Glm4MoeForCausalLM";
  EXPECT_EQ(OutcomeOf(report, "vLLM", "early 2026"), ScaleOutcome::kRefused);
  report.architecture = "MixtralForCausalLM";
  EXPECT_EQ(OutcomeOf(report, "vLLM", "early 2026"), ScaleOutcome::kUnknown);
  report.architecture = "LlamaForCausalLM";
  EXPECT_EQ(OutcomeOf(report, "vLLM", "early 2026"), ScaleOutcome::kNotApplicable) << "no row speaks of it";
}

}  // namespace
}  // namespace haypile
