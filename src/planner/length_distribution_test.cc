#include "planner/length_distribution.h"

#include <gtest/gtest.h>

#include <cmath>

namespace haypile {
namespace {

TEST(LengthDistribution, ReadsLinesWithAndWithoutCounts) {
  const LengthDistribution lengths =
      *LengthDistribution::Parse("# mine\n1000, 3\n\n 3000 1\r\n1000\n3000;5\n", "l.txt");
  ASSERT_EQ(lengths.shares().size(), 2u);
  EXPECT_EQ(lengths.shares()[0].tokens, 1000);
  EXPECT_DOUBLE_EQ(lengths.shares()[0].share, 0.4);
  EXPECT_DOUBLE_EQ(lengths.MeanTokens(), 2200.0);
  EXPECT_EQ(lengths.LongestTokens(), 3000);
  EXPECT_DOUBLE_EQ(lengths.ShareAbove(1000), 0.6);
  EXPECT_DOUBLE_EQ(lengths.ShareAbove(3000), 0.0);
}

TEST(LengthDistribution, ErrorsNameTheLine) {
  for (const char* text : {"100\nabc\n", "100\n-5\n", "100\n0\n", "100\n5,x\n", "100\n5,-1\n", "100\n5,0\n",
                           "100\n1.5\n", "100\n99999999999999999999\n", "100\n5 6 7\n"}) {
    const auto lengths = LengthDistribution::Parse(text, "l.txt");
    ASSERT_FALSE(lengths.ok()) << text;
    EXPECT_EQ(lengths.error().code(), ErrorCode::kMalformed);
    EXPECT_NE(lengths.error().message().find("'l.txt': line 2"), std::string::npos) << lengths.error().message();
  }
  EXPECT_FALSE(LengthDistribution::Parse("# nothing\n", "l.txt").ok());
}

TEST(LengthDistribution, MergesManyLengthsUpwards) {
  std::string text;
  for (int i = 1; i <= 1000; ++i) text += std::to_string(i * 10) + "\n";
  const LengthDistribution lengths = *LengthDistribution::Parse(text, "l.txt");
  EXPECT_LE(lengths.shares().size(), LengthDistribution::kMostShares);
  EXPECT_EQ(lengths.LongestTokens(), 10'000);
  EXPECT_GE(lengths.MeanTokens(), 5005.0);
  EXPECT_LT(lengths.MeanTokens(), 5005.0 + 160.0);
  double sum = 0.0;
  for (const auto& share : lengths.shares()) sum += share.share;
  EXPECT_NEAR(sum, 1.0, 1e-12);
}

// A pool of 100 blocks of 16 tokens and one block of state a request: a request of L tokens takes ceil(L/16) + 1.
TEST(LengthDistribution, RequestsThatFitAtOnce) {
  const auto concurrency = [](int64_t tokens) -> std::optional<double> {
    const double blocks = std::ceil(static_cast<double>(tokens) / 16.0) + 1.0;
    return blocks > 100.0 ? std::nullopt : std::optional<double>(100.0 / blocks);
  };
  EXPECT_DOUBLE_EQ(*ConcurrentRequests(LengthDistribution::Constant(144), concurrency), 10.0);
  // Half take 10 blocks, half 40: 25 on average.
  const LengthDistribution mixed = *LengthDistribution::Parse("144\n624\n", "l.txt");
  EXPECT_DOUBLE_EQ(*ConcurrentRequests(mixed, concurrency), 4.0);
  EXPECT_FALSE(ConcurrentRequests(*LengthDistribution::Parse("144\n6240\n", "l.txt"), concurrency).has_value());
}

}  // namespace
}  // namespace haypile
