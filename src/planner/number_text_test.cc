#include "planner/number_text.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(NumberText, GroupsThousands) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(235074), "235,074");
  EXPECT_EQ(Grouped(-8500000000), "-8,500,000,000");
}

TEST(NumberText, WritesGibWithoutTrailingZeros) {
  EXPECT_EQ(GibText(1LL << 30), "1");
  EXPECT_EQ(GibText(3LL << 29), "1.5");
  EXPECT_EQ(GibText(8500000000), "7.92");
}

TEST(NumberText, KeepsDecimals) { EXPECT_EQ(Decimals(2.3949, 2), "2.39"); }

}  // namespace
}  // namespace haypile
