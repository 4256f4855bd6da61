#include "evaluate/speed_judgement.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(CompareTimes, OnlyBeyondTheJointSpread) {
  const struct {
    TimedFigure baseline, candidate;
    SpeedFinding finding;
  } cases[] = {
      {{10, .2, 5, {}}, {9, .2, 5, {}}, SpeedFinding::kFaster},        // 1 > .4
      {{10, .6, 5, {}}, {9, .5, 5, {}}, SpeedFinding::kWithinSpread},  // 1 < 1.1
      {{10, .2, 5, {}}, {11, .2, 5, {}}, SpeedFinding::kSlower},
      {{10, 0, 5, {}}, {10.1, 0, 5, {}}, SpeedFinding::kWithinSpread},  // 1 % is below what counts
      {{10, 0, 5, {}}, {10.3, 0, 5, {}}, SpeedFinding::kSlower},
      {{10, 0, 2, {}}, {5, 0, 5, {}}, SpeedFinding::kTooFewSamples},
      {{0, 0, 5, {}}, {5, 0, 5, {}}, SpeedFinding::kTooFewSamples},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(CompareTimes(c.baseline, c.candidate).finding, c.finding) << c.baseline.time << " " << c.candidate.time;
  }
}

TEST(CompareTimes, TheClocksShareIsNoSpeed) {
  // 10 % less time with a clock 10 % higher: 9.1 * 1.1 = 10.01 at equal clock.
  const SpeedComparison same = CompareTimes({10, .1, 5, 3000}, {9.1, .1, 5, 3300});
  EXPECT_EQ(same.finding, SpeedFinding::kClockExplains);
  EXPECT_NEAR(same.clock_ratio.value(), 1.1, 1e-12);
  // 30 % less time is more than the clock explains: 7 * 1.1 = 7.7.
  EXPECT_EQ(CompareTimes({10, .1, 5, 3000}, {7, .1, 5, 3300}).finding, SpeedFinding::kFaster);
  // A slower dtype that looks equal only by its higher clock is not called equal to the clock; it is within the spread.
  EXPECT_EQ(CompareTimes({10, .1, 5, 3000}, {10, .1, 5, 3300}).finding, SpeedFinding::kWithinSpread);
  EXPECT_FALSE(CompareTimes({10, .1, 5, 3000}, {9, .1, 5, 3010}).clock_ratio.has_value());
  EXPECT_FALSE(CompareTimes({10, .1, 5, 3000}, {9, .1, 5, {}}).clock_ratio.has_value());
}

TEST(JudgeSpeed, DeepestPointOfEachStreamCount) {
  const CompareSpeed baseline{
      {{1024, 500, 5, 5, 3000}, {8000, 400, 4, 5, 3000}},
      {{1, 1000, 10, .1, 5, {}, {}, {}}, {1, 8000, 20, .1, 5, {}, {}, {}}, {4, 8000, 60, .1, 5, {}, {}, {}}},
      {}};
  const CompareSpeed candidate{{{1024, 500, 5, 5, 3000}, {8000, 440, 4, 5, 3120}},
                               {{1, 1000, 10, .1, 5, {}, {}, {}},
                                {1, 8000, 15, .1, 5, {}, {}, {}},
                                {4, 8000, 90, .1, 5, {}, {}, {}},
                                {8, 8000, 99, .1, 5, {}, {}, {}}},
                               {}};
  const SpeedJudgement judgement = JudgeSpeed(baseline, candidate);
  ASSERT_EQ(judgement.lines.size(), 3u);
  EXPECT_EQ(judgement.lines[0], "prefill of 8000 tokens: 9 % less time; the processor's clock was 4.0 % higher");
  EXPECT_EQ(judgement.lines[1], "decode with 1 stream at 8000 tokens (15.00 against 20.00 ms a token): 25 % less time");
  EXPECT_EQ(judgement.lines[2],
            "decode with 4 streams at 8000 tokens (90.00 against 60.00 ms a token): 50 % more time");
  EXPECT_TRUE(judgement.any_faster);
  EXPECT_TRUE(judgement.much_slower);
  EXPECT_TRUE(JudgeSpeed(CompareSpeed{}, candidate).lines.empty());
}

}  // namespace
}  // namespace haypile
