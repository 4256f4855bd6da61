#include "evaluate/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace haypile {
namespace {

TEST(Wilson, WorkedNumbers) {
  const struct {
    int64_t passed, total;
    double low, high;
  } cases[] = {{459, 500, .8906, .9390}, {454, 500, .8795, .9303},   {0, 50, 0, .0713}, {50, 50, .9287, 1},
               {0, 500, 0, .00762},      {1280, 1319, .9598, .9783}, {5, 5, .5655, 1},  {12, 12, .7575, 1}};
  for (const auto& c : cases) {
    const Interval interval = WilsonInterval(c.passed, c.total);
    EXPECT_NEAR(interval.low, c.low, 1e-4) << c.passed << "/" << c.total;
    EXPECT_NEAR(interval.high, c.high, 1e-4) << c.passed << "/" << c.total;
  }
  EXPECT_EQ(WilsonInterval(0, 0), (Interval{0, 1}));
  EXPECT_EQ(WilsonInterval(0, 7).low, 0);
  EXPECT_EQ(WilsonInterval(7, 7).high, 1);
}

TEST(Wilson, NarrowsWithItemsAndWidensWithConfidence) {
  const Interval few = WilsonInterval(5, 10), many = WilsonInterval(500, 1000), sure = WilsonInterval(5, 10, .99);
  EXPECT_LT(many.high - many.low, few.high - few.low);
  EXPECT_GT(sure.high - sure.low, few.high - few.low);
  EXPECT_NEAR(TwoSidedNormalQuantile(.95), 1.959963984540054, 1e-12);
}

TEST(Samples, MedianAndHalfInterquartileRange) {
  // Sorted 1 2 3 4 100: quartiles at positions 1 and 3 are 2 and 4.
  const MedianSpread odd = SummarizeSamples({3, 100, 1, 4, 2});
  EXPECT_DOUBLE_EQ(odd.median, 3);
  EXPECT_DOUBLE_EQ(odd.spread, 1);
  EXPECT_EQ(odd.samples, 5);
  // 1 2 3 4: quartiles 1.75 and 3.25.
  const MedianSpread even = SummarizeSamples({4, 3, 2, 1});
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.spread, .75);
  EXPECT_DOUBLE_EQ(SummarizeSamples({7}).spread, 0);
  EXPECT_DOUBLE_EQ(Quantile({10, 20}, .25), 12.5);
}

TEST(PairedDifference, StudentsInterval) {
  // Differences 1 2 3 4 5: mean 3, sd sqrt(2.5), se sqrt(.5); t(4, .975) = 2.776445.
  const std::vector<double> baseline = {1, 1, 1, 1, 1}, candidate = {2, 3, 4, 5, 6};
  const MeanDifference d = PairedDifference(baseline, candidate);
  EXPECT_DOUBLE_EQ(d.mean, 3);
  EXPECT_NEAR(d.stderr_of_mean, std::sqrt(.5), 1e-12);
  EXPECT_NEAR(d.interval.low, 3 - 2.776445 * std::sqrt(.5), 1e-5);
  EXPECT_NEAR(d.interval.high, 3 + 2.776445 * std::sqrt(.5), 1e-5);
  EXPECT_TRUE(std::isinf(PairedDifference(std::vector<double>{1}, std::vector<double>{2}).interval.high));
}

TEST(PairedDifference, PairingRemovesWhatItemsShare) {
  const std::vector<double> baseline = {10, 200, 3000, 40}, candidate = {11, 201.1, 3000.9, 41};
  const MeanDifference d = PairedDifference(baseline, candidate);
  EXPECT_NEAR(d.mean, 1, 1e-9);
  EXPECT_GT(d.interval.low, .8);
  EXPECT_LT(d.interval.high, 1.2);
}

TEST(PairedBootstrap, AgreesWithStudentOnManyItemsAndIsRepeatable) {
  std::vector<double> baseline, candidate;
  for (int i = 0; i < 200; ++i) {
    baseline.push_back(i);
    candidate.push_back(i + .5 + .1 * ((i * 37) % 11 - 5));
  }
  const MeanDifference t = PairedDifference(baseline, candidate);
  const Interval b = PairedBootstrapInterval(baseline, candidate, .95, 4000, 7);
  EXPECT_NEAR(b.low, t.interval.low, .01);
  EXPECT_NEAR(b.high, t.interval.high, .01);
  EXPECT_EQ(b, PairedBootstrapInterval(baseline, candidate, .95, 4000, 7));
  EXPECT_NE(b, PairedBootstrapInterval(baseline, candidate, .95, 4000, 8));
}

TEST(McNemar, WorkedNumbers) {
  const struct {
    int64_t lost, gained;
    double exact, mid;
  } cases[] = {{1, 7, .070313, .039063},  {12, 7, .359283, .263176},  {10, 3, .092285, .057373},
               {20, 8, .035698, .024120}, {25, 11, .028817, .020074}, {6, 0, .03125, .015625},
               {5, 0, .0625, .03125}};
  for (const auto& c : cases) {
    const McNemarResult result = McNemar(c.lost, c.gained);
    EXPECT_NEAR(result.exact_p, c.exact, 1e-6) << c.lost << " " << c.gained;
    EXPECT_NEAR(result.mid_p, c.mid, 1e-6) << c.lost << " " << c.gained;
    EXPECT_DOUBLE_EQ(result.exact_p, McNemar(c.gained, c.lost).exact_p);
  }
  EXPECT_EQ(McNemar(0, 0).exact_p, 1);
  // Equal counts: 1 - C(2,1)/2^2 / 2 = .75.
  EXPECT_DOUBLE_EQ(McNemar(1, 1).mid_p, .75);
  EXPECT_DOUBLE_EQ(McNemar(1, 1).exact_p, 1);
}

TEST(PairedProportion, TangosWorkedNumbers) {
  const struct {
    int64_t lost, gained, total;
    double confidence, low, high;
  } cases[] = {{1, 7, 21, .95, .0260, .5172},
               {12, 7, 500, .95, -.0293, .0078},
               {12, 7, 500, .90, -.0257, .0046},
               {25, 20, 500, .90, -.0328, .0124},
               {1, 0, 100, .90, -.0436, .0166}};
  for (const auto& c : cases) {
    const Interval interval = PairedProportionInterval(c.lost, c.gained, c.total, c.confidence);
    EXPECT_NEAR(interval.low, c.low, 1e-4) << c.lost << " " << c.gained << " " << c.total;
    EXPECT_NEAR(interval.high, c.high, 1e-4) << c.lost << " " << c.gained << " " << c.total;
  }
  const Interval all_lost = PairedProportionInterval(10, 0, 10);
  EXPECT_NEAR(all_lost.low, -1, 1e-6);
  // With every item discordant the difference is 1 - 2 loss, and the loss' interval is Wilson's.
  EXPECT_NEAR(all_lost.high, 1 - 2 * WilsonInterval(10, 10).low, 1e-6);
  const Interval no_change = PairedProportionInterval(0, 0, 20);
  EXPECT_NEAR(no_change.low, -no_change.high, 1e-9);
  EXPECT_GT(no_change.high, .1);
}

TEST(MeanOfBlocks, EqualBlocksAreTheMeanOfMeans) {
  // Means 1, 2, 3 of ten values each: sd of means 1, se 1/sqrt(3).
  const std::vector<BlockSum> blocks = {{10, 10}, {20, 10}, {30, 10}};
  const BlockMean mean = MeanOfBlocks(blocks);
  EXPECT_DOUBLE_EQ(mean.mean, 2);
  EXPECT_NEAR(mean.stderr_of_mean, 1 / std::sqrt(3), 1e-12);
  EXPECT_EQ(mean.count, 30);
}

TEST(MeanOfBlocks, UnequalAndEmptyBlocks) {
  // mean 40/20 = 2; residuals 10-20, 30-20: k/(k-1) * 200 = 400, se = 20/20 = 1. The empty block changes nothing.
  const std::vector<BlockSum> blocks = {{10, 10}, {0, 0}, {30, 10}};
  EXPECT_DOUBLE_EQ(MeanOfBlocks(blocks).stderr_of_mean, 1);
  EXPECT_TRUE(std::isnan(MeanOfBlocks(std::vector<BlockSum>{{10, 10}}).stderr_of_mean));
  EXPECT_TRUE(std::isnan(MeanOfBlocks({}).mean));
}

TEST(MeanOfBlocks, SeesCorrelationThatSingleValuesHide) {
  // Runs of 8 equal values alternate between 0 and 1: as single values n = 64 looks like 64 independent draws.
  std::vector<BlockSum> single, blocks;
  for (int block = 0; block < 8; ++block) {
    const double value = (block * 5 / 3) % 2;
    blocks.push_back({8 * value, 8});
    for (int i = 0; i < 8; ++i) single.push_back({value, 1});
  }
  EXPECT_GT(MeanOfBlocks(blocks).stderr_of_mean, 2.5 * MeanOfBlocks(single).stderr_of_mean);
}

TEST(Overlap, TouchingCounts) {
  EXPECT_TRUE(Overlap({0, 1}, {1, 2}));
  EXPECT_FALSE(Overlap({0, 1}, {1.1, 2}));
  EXPECT_TRUE(Overlap({0, 3}, {1, 2}));
}

}  // namespace
}  // namespace haypile
