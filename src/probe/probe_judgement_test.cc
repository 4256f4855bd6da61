#include "probe/probe_judgement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace haypile {
namespace {

using Series = std::vector<double>;

// Log-probabilities under three caches that differ by independent normal amounts, and servers made of them.
class Caches {
 public:
  explicit Caches(unsigned seed, size_t rows = 1023, double quantized = 0.08) : random_(seed) {
    for (size_t i = 0; i < rows; ++i) {
      bf16.push_back(-3 - std::abs(Normal(2)));
      file.push_back(bf16[i] + Normal(quantized));
      one.push_back(bf16[i] + Normal(quantized));
      repeat.push_back(bf16[i] + Normal(1e-4));
    }
  }

  double Normal(double sigma) { return sigma * std::normal_distribution<double>()(random_); }
  Series Noisy(Series values, double sigma) {
    for (double& value : values) value += Normal(sigma);
    return values;
  }
  ProbeJudgement Judge(const Series& server) const {
    const std::vector<ProbeRun> runs{
        {ProbeCache::kUnquantized, bf16}, {ProbeCache::kFileScales, file}, {ProbeCache::kUnitScales, one}};
    return JudgeProbe(server, runs, repeat);
  }
  ProbeJudgement JudgeWithoutFile(const Series& server) const {
    const std::vector<ProbeRun> runs{{ProbeCache::kUnquantized, bf16}, {ProbeCache::kUnitScales, one}};
    return JudgeProbe(server, runs, repeat);
  }

  Series bf16, file, one, repeat;

 private:
  std::mt19937 random_;
};

TEST(ProbeJudgement, EachCacheIsRecognisedThroughTheNoiseOfAnotherEngine) {
  Caches caches(1);
  for (const auto& [truth, wanted] :
       {std::pair(&caches.file, ProbeVerdict::kScalesLoaded), std::pair(&caches.one, ProbeVerdict::kUnitScales),
        std::pair(&caches.bf16, ProbeVerdict::kNotQuantized)}) {
    const ProbeJudgement judgement = caches.Judge(caches.Noisy(*truth, 0.04));
    EXPECT_EQ(judgement.verdict, wanted);
    EXPECT_EQ(judgement.doubt, ProbeDoubt::kNone);
    EXPECT_EQ(judgement.ruled_out.size(), 2U);
    ASSERT_EQ(judgement.pairs.size(), 3U);
    for (const ProbePair& pair : judgement.pairs) {
      EXPECT_NEAR(pair.gap, pair.separation * (1 - 2 * pair.share), 1e-12);
      EXPECT_TRUE(pair.share_interval.low < pair.share && pair.share < pair.share_interval.high);
      if (pair.from != ProbeCache::kUnquantized) continue;
      const bool own = (wanted == ProbeVerdict::kScalesLoaded && pair.to == ProbeCache::kFileScales) ||
                       (wanted == ProbeVerdict::kUnitScales && pair.to == ProbeCache::kUnitScales);
      EXPECT_NEAR(pair.share, own ? 1 : 0, 0.15);
    }
  }
}

TEST(ProbeJudgement, DistancesAreMeansOfSquares) {
  Caches caches(2);
  const Series server = caches.Noisy(caches.file, 0.05);
  const ProbeJudgement judgement = caches.Judge(server);
  double sum = 0, nll = 0;
  for (size_t i = 0; i < server.size(); ++i) {
    sum += (server[i] - caches.one[i]) * (server[i] - caches.one[i]);
    nll -= server[i];
  }
  EXPECT_EQ(judgement.distances[2].cache, ProbeCache::kUnitScales);
  EXPECT_NEAR(judgement.distances[2].mean_square, sum / 1023, 1e-12);
  EXPECT_NEAR(judgement.server_nll, nll / 1023, 1e-12);
  EXPECT_EQ(judgement.rows, 1023);
  EXPECT_EQ(judgement.blocks, 16);
  EXPECT_NEAR(judgement.own_noise, 1e-8, 2e-9);
}

TEST(ProbeJudgement, TwoRunsAreEnoughWhereTheCheckpointHoldsNoScales) {
  Caches caches(3);
  EXPECT_EQ(caches.JudgeWithoutFile(caches.Noisy(caches.one, 0.04)).verdict, ProbeVerdict::kUnitScales);
  EXPECT_EQ(caches.JudgeWithoutFile(caches.Noisy(caches.bf16, 0.04)).verdict, ProbeVerdict::kNotQuantized);
}

// An engine that computes in BF16 rounds half of the values otherwise: it goes along with half of the step and is no
// nearer to its own run than to the unquantized one.
TEST(ProbeJudgement, HalfOfTheStepIsEnough) {
  Caches caches(12);
  for (const auto& [truth, wanted] :
       {std::pair(&caches.file, ProbeVerdict::kScalesLoaded), std::pair(&caches.one, ProbeVerdict::kUnitScales)}) {
    Series server = caches.bf16;
    for (size_t i = 0; i < server.size(); ++i) server[i] += 0.5 * ((*truth)[i] - caches.bf16[i]);
    const ProbeJudgement judgement = caches.Judge(caches.Noisy(server, 0.09));
    EXPECT_EQ(judgement.verdict, wanted);
    EXPECT_FALSE(judgement.unexplained);
  }
}

// Scales of 16 round as 1.0 does but for what falls below the format's range: the two steps have most in common.
TEST(ProbeJudgement, StepsMayHaveMuchInCommon) {
  Caches caches(13);
  caches.file = caches.Noisy(caches.one, 0.04);
  EXPECT_EQ(caches.Judge(caches.Noisy(caches.file, 0.02)).verdict, ProbeVerdict::kScalesLoaded);
  EXPECT_EQ(caches.Judge(caches.Noisy(caches.one, 0.02)).verdict, ProbeVerdict::kUnitScales);
  EXPECT_EQ(caches.Judge(caches.Noisy(caches.bf16, 0.02)).verdict, ProbeVerdict::kNotQuantized);
}

TEST(ProbeJudgement, NoiseIsNeverCalledADifference) {
  int told = 0, wrong = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Caches caches(100 + seed, 511, 0.02);
    const ProbeVerdict verdict = caches.Judge(caches.Noisy(caches.file, 0.3)).verdict;
    told += verdict != ProbeVerdict::kCannotTell;
    wrong += verdict != ProbeVerdict::kCannotTell && verdict != ProbeVerdict::kScalesLoaded;
  }
  EXPECT_LE(told, 30);
  EXPECT_LE(wrong, 3);  // 1 in 100 at kProbeConfidence
}

// Tokens' errors come in bursts: 60 tokens in 1,000 differ thirty times as much as the others.
TEST(ProbeJudgement, BurstsDoNotMakeNoiseADifference) {
  int wrong = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Caches caches(500 + seed, 1023, 0.02);
    Series server = caches.Noisy(caches.one, 0.1);
    for (size_t burst = 0; burst < 3; ++burst) {
      for (size_t i = 0; i < 20; ++i) server[burst * 300 + i] += caches.Normal(3.0);
    }
    wrong += caches.Judge(server).verdict == ProbeVerdict::kScalesLoaded;
  }
  EXPECT_LE(wrong, 3);
}

TEST(ProbeJudgement, RunsThatAreTheSameCannotBeToldApart) {
  Caches caches(4);
  caches.file = caches.one;
  const ProbeJudgement judgement = caches.Judge(caches.Noisy(caches.one, 0.04));
  EXPECT_EQ(judgement.verdict, ProbeVerdict::kCannotTell);
  EXPECT_EQ(judgement.doubt, ProbeDoubt::kSameRuns);
  EXPECT_EQ(judgement.ruled_out, std::vector{ProbeCache::kUnquantized});
  const ProbeCache other =
      judgement.nearest == ProbeCache::kFileScales ? ProbeCache::kUnitScales : ProbeCache::kFileScales;
  const ProbePair& same = judgement.Pair(judgement.nearest, other);
  EXPECT_EQ(same.separation, 0);
  EXPECT_TRUE(std::isnan(same.share));
}

TEST(ProbeJudgement, AServerBetweenTwoRunsFitsNone) {
  Caches caches(5);
  Series server = caches.file;
  for (size_t i = 0; i < server.size(); ++i) server[i] += 0.42 * (caches.one[i] - caches.file[i]);
  const ProbeJudgement judgement = caches.Judge(caches.Noisy(server, 0.005));
  EXPECT_EQ(judgement.doubt, ProbeDoubt::kNoneFits);
  EXPECT_EQ(judgement.verdict, ProbeVerdict::kCannotTell);
}

// A store that cuts instead of rounding has errors twice as large as those of rounding, against them in direction.
TEST(ProbeJudgement, WhatNoRunExplainsIsNoVerdict) {
  Caches caches(6);
  Series against = caches.bf16, far = caches.Noisy(caches.bf16, 0.2), along = caches.Noisy(caches.bf16, 0.2);
  for (size_t i = 0; i < against.size(); ++i) {
    against[i] -= 0.5 * (caches.one[i] - caches.bf16[i]) + caches.Normal(0.12);
    along[i] += 0.4 * (caches.file[i] - caches.bf16[i]);
  }
  for (const Series& server : {against, far, along}) {
    const ProbeJudgement judgement = caches.Judge(server);
    EXPECT_EQ(judgement.verdict, ProbeVerdict::kCannotTell);
    EXPECT_TRUE(judgement.unexplained);
  }
}

// With runs of a cut store beside those that round: which store it was need not be told to tell the scales.
TEST(ProbeJudgement, RunsOfTheSameScalesDoNotStandInEachOthersWay) {
  Caches caches(9);
  const Series file_cut = caches.Noisy(caches.bf16, 0.16), one_cut = caches.Noisy(caches.bf16, 0.16);
  const std::vector<ProbeRun> runs{{ProbeCache::kUnquantized, caches.bf16},
                                   {ProbeCache::kFileScales, caches.file},
                                   {ProbeCache::kUnitScales, caches.one},
                                   {ProbeCache::kFileScalesCut, file_cut},
                                   {ProbeCache::kUnitScalesCut, one_cut}};
  EXPECT_EQ(JudgeProbe(caches.Noisy(one_cut, 0.04), runs, caches.repeat).verdict, ProbeVerdict::kUnitScales);
  EXPECT_EQ(JudgeProbe(caches.Noisy(file_cut, 0.04), runs, caches.repeat).verdict, ProbeVerdict::kScalesLoaded);
}

TEST(ProbeJudgement, AnotherModelIsNoVerdict) {
  Caches caches(7);
  const ProbeJudgement judgement = caches.Judge(caches.Noisy(caches.file, 2.0));
  EXPECT_EQ(judgement.verdict, ProbeVerdict::kCannotTell);
  EXPECT_EQ(judgement.doubt, ProbeDoubt::kOtherModel);
}

TEST(ProbeJudgement, BlocksAreAtMost64TokensAndAtLeastEight) {
  EXPECT_EQ(ProbeBlockTokens(127), 15);
  EXPECT_EQ(ProbeBlockTokens(511), 31);
  EXPECT_EQ(ProbeBlockTokens(1023), 63);
  EXPECT_EQ(ProbeBlockTokens(8191), 64);
  Caches caches(8, kLeastProbeRows);
  const ProbeJudgement judgement = caches.Judge(caches.Noisy(caches.file, 0.02));
  EXPECT_EQ(judgement.blocks, 8);
  EXPECT_EQ(judgement.verdict, ProbeVerdict::kScalesLoaded);
}

}  // namespace
}  // namespace haypile
