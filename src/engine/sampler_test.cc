#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace haypile {
namespace {

TEST(Sampler, GreedyTakesTheLargestAndTheFirstOfEquals) {
  Sampler greedy({});
  EXPECT_EQ(greedy.Sample(std::vector<float>{1, 3, 3, 2}), 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(greedy.Sample(std::vector<float>{nan, -1, nan}), 1);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  Sampler sampler({.temperature = 1.0, .top_p = 1.0, .seed = 7});
  const std::vector<float> logits = {0.0f, std::log(3.0f), -100.0f};
  int ones = 0;
  for (int i = 0; i < 10000; ++i) ones += sampler.Sample(logits) == 1;
  EXPECT_NEAR(ones, 7500, 200);  // 4.6 standard deviations
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  Sampler sampler({.temperature = 1.0, .top_p = 0.7, .seed = 7});
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  for (int i = 0; i < 1000; ++i) EXPECT_LT(sampler.Sample(logits), 2);
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  const std::vector<float> logits(100, 1.0f);
  Sampler a({.temperature = 0.8, .top_p = 0.9, .seed = 3}), b({.temperature = 0.8, .top_p = 0.9, .seed = 3});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.Sample(logits), b.Sample(logits));
}

TEST(Sampler, RangesAreChecked) {
  EXPECT_FALSE(CheckSampling({.temperature = -1}).ok());
  EXPECT_FALSE(CheckSampling({.temperature = NAN}).ok());
  EXPECT_FALSE(CheckSampling({.top_p = 0}).ok());
  EXPECT_FALSE(CheckSampling({.top_p = 1.5}).ok());
  EXPECT_TRUE(CheckSampling({.temperature = 0.7, .top_p = 0.9}).ok());
}

}  // namespace
}  // namespace haypile
