#include "probe/probe_judgement.h"

#include <gtest/gtest.h>

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
    ASSERT_EQ(judgement.pairs.size(), 2U);
    for (const ProbePair& pair : judgement.pairs) {
      EXPECT_NEAR(pair.share, 0, 0.1);
      EXPECT_NEAR(pair.gap, pair.separation * (1 - 2 * pair.share), 1e-12);
      EXPECT_TRUE(pair.share_interval.low < pair.share && pair.share < pair.share_interval.high);
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
  const auto same = std::ranges::find(judgement.pairs, 0.0, &ProbePair::separation);
  ASSERT_NE(same, judgement.pairs.end());
  EXPECT_TRUE(std::isnan(same->share));
}

TEST(ProbeJudgement, AServerBetweenTwoRunsFitsNone) {
  Caches caches(5);
  Series server = caches.file;
  for (size_t i = 0; i < server.size(); ++i) server[i] += 0.42 * (caches.one[i] - caches.file[i]);
  const ProbeJudgement judgement = caches.Judge(caches.Noisy(server, 0.005));
  EXPECT_EQ(judgement.doubt, ProbeDoubt::kNoneFits);
  EXPECT_EQ(judgement.verdict, ProbeVerdict::kCannotTell);
}

// A store that cuts instead of rounding has errors twice as large as those of rounding, against them in direction: the
// nearest run is then the unquantized one.
TEST(ProbeJudgement, AnUnquantizedCacheNeedsMoreThanToBeTheNearest) {
  Caches caches(6);
  Series cut = caches.bf16, far = caches.Noisy(caches.bf16, 0.2);
  for (size_t i = 0; i < cut.size(); ++i) cut[i] -= 0.5 * (caches.one[i] - caches.bf16[i]) + caches.Normal(0.12);
  for (const Series& server : {cut, far}) {
    const ProbeJudgement judgement = caches.Judge(server);
    EXPECT_EQ(judgement.verdict, ProbeVerdict::kCannotTell);
    EXPECT_EQ(judgement.doubt, ProbeDoubt::kNoneFits);
  }
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
