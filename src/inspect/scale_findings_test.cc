#include "inspect/scale_findings.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace haypile {
namespace {

// A family whose layer i has K of k[i] and V of v[i].
FamilySummary FamilyOf(const std::vector<double>& k, const std::vector<double>& v, const std::string& dtype = "F32") {
  std::vector<KvScaleTensor> scales;
  const auto add = [&](const char* side, KvScaleSide which, int layer, double value) {
    KvScaleTensor scale;
    scale.name.side = which;
    scale.name.place.layer = layer;
    scale.name.place.prefix = "model.layers";
    scale.tensor.name = "model.layers." + std::to_string(layer) + ".self_attn." + side + "_scale";
    scale.tensor.dtype = dtype;
    scale.values = {value};
    scales.push_back(scale);
  };
  for (size_t layer = 0; layer < k.size(); ++layer) add("k", KvScaleSide::kK, static_cast<int>(layer), k[layer]);
  for (size_t layer = 0; layer < v.size(); ++layer) add("v", KvScaleSide::kV, static_cast<int>(layer), v[layer]);
  return SummarizeScales(scales, {}).front();
}

std::vector<std::string> CodesOf(const FamilySummary& family, const QuantizationDeclaration& declaration = {}) {
  std::vector<std::string> codes;
  for (const CheckpointFinding& finding : ScaleFindings(family, {}, declaration)) codes.push_back(finding.code);
  return codes;
}

using Codes = std::vector<std::string>;

TEST(ScaleFindingsTest, SoundScalesHaveNone) {
  EXPECT_EQ(CodesOf(FamilyOf({0.031, 0.042, 0.027}, {0.011, 0.009, 0.017})), Codes{});
}

TEST(ScaleFindingsTest, NamesTheLayersOfBadValues) {
  const double nan = std::nan("");
  const FamilySummary family = FamilyOf({0.031, 0, 0, 0.027}, {0.01, 0.02, -1, nan});
  const CheckpointFindings findings = ScaleFindings(family, {}, {});
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].code, "kv_scale_zero");
  EXPECT_EQ(findings[0].layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(findings[0].level, FindingLevel::kError);
  EXPECT_NE(findings[0].text.find("layers 1-2"), std::string::npos);
  EXPECT_EQ(findings[1].code, "kv_scale_negative");
  EXPECT_EQ(findings[1].layers, std::vector<int>{2});
  EXPECT_EQ(findings[2].code, "kv_scale_not_finite");
  EXPECT_EQ(findings[2].layers, std::vector<int>{3});
}

TEST(ScaleFindingsTest, TellsEpsilonsFromScales) {
  EXPECT_EQ(CodesOf(FamilyOf({0.031, 1e-9, 0.027}, {0.01, 0.02, 0.03})), Codes{"kv_scale_epsilon"});
  EXPECT_EQ(CodesOf(FamilyOf({0.031, 1.1920929e-07, 0.027}, {0.01, 0.02, 0.03})), Codes{"kv_scale_epsilon"});
  EXPECT_EQ(CodesOf(FamilyOf({0.031, 1e-40, 0.027}, {0.01, 0.02, 0.03})), Codes{"kv_scale_denormal"});
  // 2^-7 is bfloat16's epsilon, and in float32 a scale like any other.
  EXPECT_EQ(CodesOf(FamilyOf({0.031, 0.0078125, 0.027}, {0.01, 0.02, 0.03}, "BF16")), Codes{"kv_scale_epsilon"});
  EXPECT_EQ(CodesOf(FamilyOf({0.031, 0.0078125, 0.027}, {0.01, 0.02, 0.03})), Codes{});
}

TEST(ScaleFindingsTest, TellsLargeFromImplausible) {
  EXPECT_EQ(CodesOf(FamilyOf({0.031, 0.75, 0.027}, {0.01, 0.02, 0.03})), Codes{"kv_scale_large"});
  EXPECT_EQ(CodesOf(FamilyOf({12.5, 21.0, 33.0}, {0.01, 0.02, 0.03})), Codes{"kv_scale_implausible"});
  QuantizationDeclaration nvfp4;
  nvfp4.kv_in_config = "nvfp4";
  EXPECT_EQ(CodesOf(FamilyOf({0.031, 0.75, 0.027}, {0.01, 0.02, 0.03}), nvfp4), Codes{});
}

TEST(ScaleFindingsTest, TellsConstants) {
  EXPECT_EQ(CodesOf(FamilyOf({1, 1, 1}, {1, 1, 1})), Codes{"kv_scales_all_one"});
  EXPECT_EQ(CodesOf(FamilyOf({0.5, 0.5}, {0.5, 0.5})), Codes{"kv_scales_constant"});
  EXPECT_EQ(CodesOf(FamilyOf({0.5, 0.5, 0.5}, {0.1, 0.2, 0.3})), Codes{"kv_scales_constant"});
  EXPECT_EQ(CodesOf(FamilyOf({0.5, 0.5}, {0.1, 0.2})), Codes{}) << "two layers may round to one value";
  EXPECT_EQ(CodesOf(FamilyOf({0.5, 0.5, 0.5}, {0.25, 0.25, 0.25})),
            (Codes{"kv_scales_constant", "kv_scales_constant"}));
  EXPECT_EQ(CodesOf(FamilyOf({1, 1, 1.5}, {0.1, 0.2, 0.3})), (Codes{"kv_scale_large", "kv_scales_clamped"}));
  const CheckpointFindings clamped = ScaleFindings(FamilyOf({1, 1, 1.5}, {0.1, 0.2, 0.3}), {}, {});
  EXPECT_NE(clamped[1].text.find("no value of K is below 1.0 and 2 of 3"), std::string::npos) << clamped[1].text;
}

TEST(ScaleFindingsTest, TellsOneScaleForBoth) {
  EXPECT_EQ(CodesOf(FamilyOf({0.1, 0.2, 0.3}, {0.1, 0.2, 0.3})), Codes{"kv_scales_k_equals_v"});
  EXPECT_EQ(CodesOf(FamilyOf({0.1, 0.2, 0.3}, {0.1, 0.2, 0.25})), Codes{});
}

// Layers 0 and 2 are recurrent, 1 and 3 attend, 4 predicts tokens.
ModelGeometry Hybrid() {
  ModelGeometry model;
  for (int i = 0; i < 5; ++i) {
    LayerGeometry layer;
    layer.index = i;
    layer.kv_heads = 2;
    layer.head_dim_k = layer.head_dim_v = 64;
    if (i % 2 == 0) layer.cache = CacheKind::kStateSpace;
    (i < 4 ? model.layers : model.mtp_layers).push_back(layer);
  }
  return model;
}

TEST(CoverageFindingsTest, KnowsLayersWithoutCacheAndBeyondTheModel) {
  const ModelGeometry model = Hybrid();
  const std::vector<KvLayerNeed> needs = {{.layer = 1, .kv_heads = 2}, {.layer = 3, .kv_heads = 2}};
  const auto codes = [&](size_t layers) {
    std::vector<std::string> result;
    const std::vector<double> values(layers, 0.1);
    for (const auto& finding : CoverageFindings({FamilyOf(values, values)}, needs, &model))
      result.push_back(finding.code);
    return result;
  };
  EXPECT_EQ(codes(2),
            (Codes{"kv_scales_missing_layers", "kv_scales_missing_layers", "kv_scales_of_layers_without_cache"}));
  EXPECT_EQ(codes(4), Codes{"kv_scales_of_layers_without_cache"});
  EXPECT_EQ(codes(5), Codes{"kv_scales_of_layers_without_cache"}) << "layer 4 predicts tokens";
  EXPECT_EQ(codes(6), (Codes{"kv_scales_of_layers_without_cache", "kv_scales_beyond_model"}));
}

TEST(CoverageFindingsTest, FamiliesCompleteEachOther) {
  const std::vector<KvLayerNeed> needs = {{.layer = 0}, {.layer = 1}};
  FamilySummary first = FamilyOf({0.1}, {0.2}), second = FamilyOf({0.1, 0.3}, {0.2, 0.4});
  second.family = KvScaleFamily::kProjection;
  second.k_layers = second.v_layers = {1};
  EXPECT_TRUE(CoverageFindings({first, second}, needs, nullptr).empty());
  second.k_layers = second.v_layers = {0, 1};
  const CheckpointFindings twice = CoverageFindings({first, second}, needs, nullptr);
  ASSERT_EQ(twice.size(), 1u);
  EXPECT_EQ(twice[0].code, "kv_scales_twice");
  EXPECT_EQ(twice[0].layers, std::vector<int>{0});
}

TEST(RangesTest, JoinsRunsAndCutsLongLists) {
  EXPECT_EQ(RangesText({}), "");
  EXPECT_EQ(RangesText({4}), "4");
  EXPECT_EQ(RangesText({0, 1, 2, 7, 9, 10}), "0-2, 7, 9-10");
  std::vector<int> odd;
  for (int i = 1; i < 100000; i += 2) odd.push_back(i);
  const std::string text = RangesText(odd);
  EXPECT_LT(text.size(), 200u);
  EXPECT_NE(text.find("99999 (50000 runs)"), std::string::npos) << text;
}

}  // namespace
}  // namespace haypile
