#include "compare/scales_in_use.h"

#include <gtest/gtest.h>

#include <limits>

#include "compare/kv_amax.h"
#include "formats/row_codec.h"
#include "spec/kv_geometry.h"

namespace haypile {
namespace {

// 2 layers of 2 KV heads of 32.
ModelSpec SmallSpec() {
  ModelSpec spec;
  spec.layer_count = 2;
  spec.query_heads = spec.kv_heads = 2;
  spec.head_dim = 32;
  spec.hidden_size = 64;
  spec.layers.resize(2);
  return spec;
}

CheckpointKvScales Own(float divisor) {
  CheckpointKvScales own;
  own.tensors = 3;
  own.example = "k_scale";
  own.k = {{0.5f, 0.25f}, {1, 1}};
  own.v = {{2, 2}, {4, 4}};
  own.divisor.value = divisor;
  own.divisor.words = "amax/448";
  return own;
}

KvDtype Both(KvFormat format) { return {format, format}; }

TEST(ScalesInUse, TheModelsOwnAreTurnedIntoTheDtypesRange) {
  const auto k_of = [](const CheckpointKvScales& own, KvDtype dtype) {
    return FindScalesInUse(SmallSpec(), own, "", dtype).value().scales.k;
  };
  using Scales = std::vector<std::vector<float>>;
  EXPECT_EQ(k_of(Own(448), Both(KvFormat::kFp8E4m3)), (Scales{{0.5f, 0.25f}, {1, 1}}));
  EXPECT_EQ(k_of(Own(2688), Both(KvFormat::kNvfp4)), (Scales{{0.5f, 0.25f}, {1, 1}}));
  EXPECT_EQ(k_of(Own(2688), Both(KvFormat::kFp8E4m3)), (Scales{{3, 1.5f}, {6, 6}}));
  EXPECT_FLOAT_EQ(k_of(Own(448), Both(KvFormat::kNvfp4))[0][0], 0.5f / 6);
  CheckpointKvScales partial = Own(2688);
  partial.layers_without = {1};
  EXPECT_EQ(k_of(partial, Both(KvFormat::kFp8E4m3)), (Scales{{3, 1.5f}, {1, 1}}));  // 1.0 is 1.0 in every format
  EXPECT_TRUE(k_of(Own(448), Both(KvFormat::kBf16)).empty());
  EXPECT_EQ(FindScalesInUse(SmallSpec(), Own(448), "", Both(KvFormat::kFp8E4m3)).value().source, ScaleSource::kModel);
}

TEST(ScalesInUse, ScalesThatNoCacheCanUseEndTheCommandAndOthersAreLeftAlone) {
  CheckpointKvScales own;
  own.tensors = 1;
  own.bad = "'x' holds 0";
  const auto refused = FindScalesInUse(SmallSpec(), own, "", Both(KvFormat::kFp8E4m3));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kMalformed);
  EXPECT_TRUE(FindScalesInUse(SmallSpec(), own, "", Both(KvFormat::kBf16)).ok());
  own.bad.clear();
  own.unused = "they are for int8";
  const auto unused = FindScalesInUse(SmallSpec(), own, "", Both(KvFormat::kFp8E4m3)).value();
  EXPECT_EQ(unused.source, ScaleSource::kDefault);
  EXPECT_TRUE(unused.scales.k.empty());
}

TEST(ScalesInUse, TheNoticeSaysWhatIsInUseAndNothingWhereNothingIs) {
  const KvDtype fp8 = Both(KvFormat::kFp8E4m3), bf16 = Both(KvFormat::kBf16);
  CheckpointKvScales own = Own(448);
  EXPECT_EQ(OwnScalesNotice(own, "", {&fp8, 1}),
            "the model's own KV scales are in use: 3 tensors such as 'k_scale', amax/448");
  own.layers_without = {0, 1};
  EXPECT_NE(OwnScalesNotice(own, "", {&fp8, 1}).find("layers 0,1 lack"), std::string::npos);
  EXPECT_EQ(OwnScalesNotice(own, "file.json", {&fp8, 1}), "");
  EXPECT_EQ(OwnScalesNotice(own, "", {&bf16, 1}), "");
  EXPECT_EQ(OwnScalesNotice({}, "", {&fp8, 1}), "");
  own.k.clear();
  own.unused = "they are for int8";
  EXPECT_NE(OwnScalesNotice(own, "", {&fp8, 1}).find("not used: they are for int8; every scale is 1.0"),
            std::string::npos);
}

// K of head h in layer l is at most 448 * (1 + l) * (1 + h) * 0.01, V a tenth of that.
KvAmax SomeAmax() {
  KvAmax amax(SmallSpec());
  for (int layer = 0; layer < 2; ++layer) {
    std::vector<float> k(3 * 64), v(3 * 64);
    for (size_t head = 0; head < 2; ++head) {
      k[64 + head * 32 + 5] = -4.48f * static_cast<float>((1 + layer) * (1 + static_cast<int>(head)));
      v[head * 32] = -k[64 + head * 32 + 5] / 10;
    }
    k[0] = std::numeric_limits<float>::infinity();
    amax.OnKv(layer, k.data(), v.data(), 3);
  }
  return amax;
}

TEST(KvAmaxTest, TheRatioIsThatToTheScaleThatTheLargestValueAsksFor) {
  const KvAmax amax = SomeAmax();
  EXPECT_FLOAT_EQ(amax.K(1, 1), 4.48f * 4);
  const KvGeometry geometry = MakeKvGeometry(SmallSpec(), Both(KvFormat::kFp8E4m3)).value();
  const auto use = [&](const std::vector<std::vector<float>>& scales, const KvAmax* seen) {
    return ScaleUseOf(CacheSide::kK, geometry, KvFormat::kFp8E4m3, scales, seen);
  };
  const ScaleUse by_layer = *use({{0.02f, 0.02f}, {0.04f, 0.04f}}, &amax);
  EXPECT_NEAR(by_layer.ratio_to_amax->low, 1, 1e-5);
  EXPECT_NEAR(by_layer.ratio_to_amax->high, 1, 1e-5);
  EXPECT_FLOAT_EQ(static_cast<float>(by_layer.largest), 0.04f);
  const ScaleUse by_head = *use({{0.01f, 0.02f}, {0.02f, 0.01f}}, &amax);
  EXPECT_NEAR(by_head.ratio_to_amax->low, 0.25, 1e-5);
  EXPECT_NEAR(by_head.ratio_to_amax->high, 1, 1e-5);
  EXPECT_NEAR(use({}, &amax)->ratio_to_amax->low, 25, 1e-3);  // 1.0
  EXPECT_FALSE(use({}, nullptr)->ratio_to_amax.has_value());
  EXPECT_FALSE(ScaleUseOf(CacheSide::kK, geometry, KvFormat::kBf16, {}, &amax).has_value());
}

TEST(KvAmaxTest, TheStateIsReadBack) {
  const KvAmax amax = SomeAmax();
  KvAmax back(SmallSpec());
  ASSERT_TRUE(back.FromJson(amax.ToJson()));
  EXPECT_EQ(back.V(1, 0), amax.V(1, 0));
  EXPECT_FALSE(back.FromJson({{"k", {1, 2}}, {"v", {1}}}));
  EXPECT_EQ(back.V(1, 0), amax.V(1, 0));
  KvAmax none(SmallSpec());
  none.Merge(back);
  EXPECT_EQ(none.K(0, 1), amax.K(0, 1));
}

}  // namespace
}  // namespace haypile
