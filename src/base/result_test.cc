#include "base/result.h"

#include <gtest/gtest.h>

#include <set>

namespace haypile {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Error(ErrorCode::kInvalidArgument, "odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  HAYPILE_TRY_ASSIGN(const int half, Half(value));
  return Half(half);
}

TEST(Result, PassesValuesAndErrorsOn) {
  EXPECT_EQ(Quarter(8).value(), 2);
  ASSERT_FALSE(Quarter(6).ok());
  EXPECT_EQ(Quarter(6).error().message(), "odd");
}

TEST(Result, ContextGoesInFront) { EXPECT_EQ(Error(ErrorCode::kIo, "b").WithContext("a").message(), "a: b"); }

TEST(ErrorCode, TableIsInOrderWithDistinctExitCodes) {
  std::set<int> seen;
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto& info = InfoOf(static_cast<ErrorCode>(i));
    EXPECT_EQ(static_cast<int>(info.code), i);
    EXPECT_TRUE(seen.insert(info.exit_status).second);
    EXPECT_NE(info.exit_status, 0);
  }
}

}  // namespace
}  // namespace haypile
