#include "evaluate/divergence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace haypile {
namespace {

RowDivergence Row(double kl, double baseline_nll, double candidate_nll, bool same_top1) {
  return {kl, baseline_nll, candidate_nll, same_top1, true};
}

TEST(Divergence, MeansAndPerplexities) {
  DivergenceAccumulator accumulator;
  accumulator.Add("essays", 0, Row(.01, 1, 2, true));
  accumulator.Add("essays", 1, Row(.03, 3, 2, false));
  accumulator.Add("almanac", 700, Row(.02, 2, 5, true));
  const DivergenceSummary all = accumulator.All();
  EXPECT_EQ(all.tokens, 3);
  EXPECT_NEAR(all.kl.mean, .02, 1e-12);
  EXPECT_NEAR(all.top1.mean, 2. / 3, 1e-12);
  EXPECT_NEAR(all.baseline_nll.mean, 2, 1e-12);
  EXPECT_NEAR(all.candidate_nll.mean, 3, 1e-12);
  EXPECT_NEAR(all.nll_change.mean, 1, 1e-12);
  EXPECT_NEAR(accumulator.OfText("essays").kl.mean, .02, 1e-12);
  EXPECT_EQ(accumulator.OfText("handbook").tokens, 0);

  CompareCost cost;
  accumulator.FillCost(cost);
  EXPECT_NEAR(cost.perplexity.value(), std::exp(3.0), 1e-9);
  EXPECT_NEAR(cost.baseline_perplexity.value(), std::exp(2.0), 1e-9);
  ASSERT_EQ(cost.texts.size(), 2u);
  EXPECT_EQ(cost.texts[0].text, "almanac");
  EXPECT_NEAR(cost.texts[1].perplexity.value(), std::exp(2.0), 1e-9);
}

TEST(Divergence, BucketsDoubleFromOneThousand) {
  EXPECT_EQ(DivergenceAccumulator::BucketEdges(255), (std::vector<int64_t>{0}));
  EXPECT_EQ(DivergenceAccumulator::BucketEdges(8192), (std::vector<int64_t>{0, 256, 1024, 2048, 4096, 8192}));
  DivergenceAccumulator accumulator;
  for (int64_t position : {0, 255, 256, 1023, 1024, 2047, 5000, 16383}) {
    accumulator.Add("t", position, Row(static_cast<double>(position), 0, 0, true));
  }
  const std::vector<ContextBucket> buckets = accumulator.Buckets();
  ASSERT_EQ(buckets.size(), 5u);  // 2k-4k is empty and left out
  const struct {
    int64_t from, to, tokens;
    double kl;
  } expected[] = {{0, 256, 2, 127.5},
                  {256, 1024, 2, 639.5},
                  {1024, 2048, 2, 1535.5},
                  {4096, 8192, 1, 5000},
                  {8192, 16384, 1, 16383}};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(buckets[i].from, expected[i].from);
    EXPECT_EQ(buckets[i].to, expected[i].to);
    EXPECT_EQ(buckets[i].tokens, expected[i].tokens);
    EXPECT_DOUBLE_EQ(buckets[i].mean_kl, expected[i].kl);
  }
  EXPECT_FALSE(buckets[3].kl_stderr.has_value());  // one block alone has no error
  EXPECT_TRUE(buckets[0].kl_stderr.has_value());
}

TEST(Divergence, MergeEqualsAddingEverythingToOne) {
  DivergenceAccumulator whole, first, second;
  for (int64_t position = 0; position < 3000; ++position) {
    const RowDivergence row = Row(.001 * static_cast<double>((position * 7919) % 101), 2.5, 2.6, position % 9 != 0);
    whole.Add("a", position, row);
    (position % 3 == 0 ? first : second).Add("a", position, row);
  }
  first.Merge(second);
  EXPECT_EQ(first.All().tokens, whole.All().tokens);
  EXPECT_NEAR(first.All().kl.mean, whole.All().kl.mean, 1e-12);
  EXPECT_NEAR(first.All().kl.stderr_of_mean, whole.All().kl.stderr_of_mean, 1e-12);
  EXPECT_NEAR(first.All().top1.mean, whole.All().top1.mean, 1e-12);
  EXPECT_EQ(first.Buckets().size(), whole.Buckets().size());
}

TEST(Divergence, BurstsWidenTheError) {
  // The same values, once in bursts of 64 and once shuffled: same mean, larger error for the bursts.
  DivergenceAccumulator bursts, even;
  for (int64_t position = 0; position < 64 * 64; ++position) {
    bursts.Add("t", position, Row((position / 64) % 2 ? .1 : 0, 1, 1, true));
    even.Add("t", position, Row((position * 2654435761u >> 7) % 2 ? .1 : 0, 1, 1, true));
  }
  EXPECT_NEAR(bursts.All().kl.mean, even.All().kl.mean, .01);
  EXPECT_GT(bursts.All().kl.stderr_of_mean, 4 * even.All().kl.stderr_of_mean);
  EXPECT_NEAR(bursts.All().kl.stderr_of_mean, .05 / std::sqrt(63), 1e-9);
}

TEST(Divergence, BrokenLogitsAreCountedAndSpoilThePerplexity) {
  DivergenceAccumulator accumulator;
  accumulator.Add("t", 0, Row(.01, 1, 1, true));
  accumulator.Add("t", 1, RowDivergence{});
  EXPECT_EQ(accumulator.All().tokens, 1);
  EXPECT_EQ(accumulator.All().non_finite, 1);
  CompareCost cost;
  accumulator.FillCost(cost);
  EXPECT_TRUE(std::isnan(cost.perplexity.value()));
  EXPECT_NEAR(cost.mean_kl.value(), .01, 1e-12);
}

TEST(Divergence, NothingAddedIsNothingMeasured) {
  CompareCost cost;
  DivergenceAccumulator().FillCost(cost);
  EXPECT_FALSE(cost.mean_kl.has_value());
  EXPECT_FALSE(cost.perplexity.has_value());
  EXPECT_TRUE(cost.buckets.empty());
}

}  // namespace
}  // namespace haypile
