#include "spec/kv_geometry.h"

#include <gtest/gtest.h>

#include "spec/smollm2_spec_test.h"

namespace haypile {
namespace {

int64_t BytesPerToken(const std::string& dtype) {
  return MakeKvGeometry(SmolLm2Spec(), ParseKvDtype(dtype).value()).value().BytesPerToken();
}

TEST(KvGeometry, RowBytesFollowTheFormats) {
  EXPECT_EQ(RowBytes(KvFormat::kBf16, 64), 128);
  EXPECT_EQ(RowBytes(KvFormat::kFp8E5m2, 80), 80);
  EXPECT_EQ(RowBytes(KvFormat::kNvfp4, 128), 64 + 8);
  EXPECT_EQ(RowBytes(KvFormat::kMxfp4, 64), 32 + 2);
  EXPECT_EQ(RowBytes(KvFormat::kInt8PerTokenHead, 64), 68);
  EXPECT_EQ(RowBytes(KvFormat::kQ8_0, 64), 68);
  EXPECT_EQ(RowBytes(KvFormat::kQ4_0, 64), 36);
}

TEST(KvGeometry, BytesPerTokenOfSmolLm) {
  EXPECT_EQ(BytesPerToken("bf16"), 30 * 3 * 2 * 128);
  EXPECT_EQ(BytesPerToken("fp8"), 11520);  // what vLLM's CPU pool arithmetic shows for this model
  EXPECT_EQ(BytesPerToken("nvfp4"), 30 * 3 * 2 * 36);
  EXPECT_EQ(BytesPerToken("q8_0/nvfp4_4over6"), 30 * 3 * (68 + 36));
}

TEST(KvGeometry, HeadDimThatABlockDoesNotDivideIsRefused) {
  ModelSpec model = SmolLm2Spec();
  model.head_dim = 80;
  EXPECT_TRUE(MakeKvGeometry(model, ParseKvDtype("nvfp4").value()).ok());
  const auto refused = MakeKvGeometry(model, ParseKvDtype("fp8/mxfp4").value());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("head dim 80"), std::string::npos);
}

TEST(KvGeometry, SkipLayers) {
  ModelSpec model = SmolLm2Spec();
  model.layers[3].window = 512;
  EXPECT_TRUE(ParseSkipLayers("0,29", model).value()[29]);
  EXPECT_TRUE(ParseSkipLayers("0 1", model).value()[1]);
  EXPECT_TRUE(ParseSkipLayers("sliding_window", model).value()[3]);
  EXPECT_EQ(ParseSkipLayers("", model).value(), std::vector<bool>(30, false));
  for (const char* bad : {"30", "-1", "x", "1x"}) {
    EXPECT_EQ(ParseSkipLayers(bad, model).error().code(), ErrorCode::kInvalidArgument) << bad;
  }
}

TEST(ModelSpec, ParametersOfSmolLm135M) {
  EXPECT_EQ(ParameterCount(SmolLm2Spec()), 134515008);  // as its publishers count it
}

TEST(KvDtype, NamesRoundTripAndUnknownPartsAreNamed) {
  for (const auto& info : AllKvFormats()) {
    EXPECT_EQ(ParseKvDtype(info.name).value().Name(), info.name);
  }
  EXPECT_EQ(ParseKvDtype("fp8").value().Name(), "fp8_e4m3");
  EXPECT_EQ(ParseKvDtype("fp8/fp8_e4m3").value().Name(), "fp8_e4m3");
  EXPECT_EQ(ParseKvDtype("q8_0/nvfp4").value().Name(), "q8_0/nvfp4");
  for (const char* bad : {"", "fp9", "fp8/", "/fp8", "fp8/fp8/fp8", "FP8"}) {
    EXPECT_EQ(ParseKvDtype(bad).error().code(), ErrorCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace haypile
