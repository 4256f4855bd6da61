#include "compare/request.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(ParseByteCount, NumbersWithUnits) {
  const auto bytes = [](const char* text) { return ParseByteCount(text, "--kv-cache-memory").value(); };
  EXPECT_EQ(bytes("1048576"), 1048576);
  EXPECT_EQ(bytes("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(bytes("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(bytes("2GB"), 2000000000);
  EXPECT_EQ(bytes("64K"), 65536);
}

TEST(ParseByteCount, RefusesWhatIsNoSize) {
  for (const char* text : {"", "lots", "0", "-1", "1XB", "nan", "inf", "1e30", "512 MiB", "0.1"}) {
    const auto result = ParseByteCount(text, "--kv-cache-memory");
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message().find("--kv-cache-memory"), std::string::npos);
  }
}

TEST(ParseStreams, SortedWithoutRepeats) {
  EXPECT_EQ(ParseStreams("8,1,4,1").value(), (std::vector<int64_t>{1, 4, 8}));
  for (const char* text : {"", "0", "1,", "x", "1,-2", "257", "1.5"}) EXPECT_FALSE(ParseStreams(text).ok()) << text;
}

TEST(ParseDtypeList, RefusesRepeatsUnderAnyName) {
  EXPECT_EQ(ParseDtypeList("bf16,fp8,q8_0/nvfp4_4over6").value().size(), 3u);
  for (const char* text : {"", "bf16,", "fp8,fp8_e4m3", "bf16,bf16/bf16", "int3"}) {
    EXPECT_EQ(ParseDtypeList(text).error().code(), ErrorCode::kInvalidArgument) << text;
  }
}

TEST(ResolveMaxModelLen, DefaultsToTheEffortAndIsHeldToTheModel) {
  ModelSpec spec;
  spec.max_positions = 6000;
  CompareRequest request;
  ASSERT_TRUE(ResolveMaxModelLen(spec, request).ok());
  EXPECT_EQ(request.max_model_len, 6000);
  request.max_model_len = 0;
  request.effort = CompareEffort::kQuick;
  ASSERT_TRUE(ResolveMaxModelLen(spec, request).ok());
  EXPECT_EQ(request.max_model_len, PlanOf(CompareEffort::kQuick).default_max_model_len);
  request.max_model_len = 6001;
  EXPECT_EQ(ResolveMaxModelLen(spec, request).error().code(), ErrorCode::kOutOfBudget);
  request.max_model_len = 10;
  EXPECT_EQ(ResolveMaxModelLen(spec, request).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace haypile
