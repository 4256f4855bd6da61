#include "evaluate/verdict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "evaluate/cost_judgement.h"
#include "evaluate/verdict_limits.h"

namespace haypile {
namespace {

// A run with the figures that FP8 E4M3 has on SmolLM2: shipped unless a test changes something.
CompareRun GoodRun(const std::string& dtype = "fp8_e4m3") {
  CompareRun run;
  run.kv_cache_dtype = dtype;
  run.pool_tokens = 20000;
  run.ratio_to_baseline = run.ratio_in_theory = 2;
  run.requests_at_max_len = 2.4;
  CompareCost cost;
  cost.mean_kl = .0080;
  cost.kl_stderr = .0004;
  cost.top1_agreement = .950;
  cost.perplexity = 34.694;
  cost.baseline_perplexity = 34.425;
  cost.tokens = 57000;
  cost.buckets = {{0, 256, 1000, .007, .0006, .95}, {256, 1024, 3000, .008, .0005, .95}};
  cost.recall = {{.1, 2048, 8, 10, .49, .94, 8, false, {}}, {.9, 2048, 9, 10, .6, .98, 9, false, {}}};
  cost.tasks = {{"arithmetic", 12, 20, 13, false, {}}};
  run.cost = cost;
  return run;
}

CompareResult ResultOf(const CompareRun& run) {
  CompareResult result;
  result.model = "smollm2-135m";
  result.baseline = "bf16";
  result.complete = true;
  result.options.max_model_len = 8192;
  result.model_facts.context_length = 8192;
  CompareRun baseline;
  baseline.kv_cache_dtype = "bf16";
  result.runs = {baseline, run};
  result.noise_floor = NoiseFloor{.001, .985, .0001, 57000, "chunks of 128 tokens instead of 512"};
  return result;
}

VerdictRow JudgeOne(const CompareRun& run, std::vector<RunEvidence> evidence = {}) {
  const CompareVerdict verdict = Judge(ResultOf(run), evidence);
  EXPECT_EQ(verdict.rows.size(), 1u);
  return verdict.rows.front();
}

bool Says(const VerdictRow& row, std::string_view words) {
  return std::any_of(row.lines.begin(), row.lines.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

std::string LinesOf(const VerdictRow& row) {
  std::string text;
  for (const std::string& line : row.lines) text += line + "\n";
  return text;
}

TEST(Verdict, SmallCostsAreShipped) {
  const VerdictRow row = JudgeOne(GoodRun());
  EXPECT_EQ(row.outcome, CompareOutcome::kShip) << LinesOf(row);
  EXPECT_TRUE(Says(row, "2.00 times the tokens"));
  EXPECT_TRUE(Says(row, "KL 0.008 +- 0.0004 nats a token, 8 times the noise floor: small")) << LinesOf(row);
  EXPECT_TRUE(Says(row, "95.0 % of tokens (the baseline with itself: 98.5 %)")) << LinesOf(row);
  EXPECT_TRUE(Says(row, "perplexity 34.69 against 34.42 (+0.8 %)")) << LinesOf(row);
  EXPECT_TRUE(Says(row, "recall: 17 of 20 right, the baseline 17")) << LinesOf(row);
}

TEST(Verdict, KlDecidesWithItsError) {
  const struct {
    double kl, error;
    CompareOutcome outcome;
  } cases[] = {
      {.0029, .0002, CompareOutcome::kShip},          // under three times the floor
      {.0095, .0002, CompareOutcome::kShip},          // .0095 + 1.645 * .0002 = .00983
      {.0095, .0004, CompareOutcome::kInconclusive},  // .01016 reaches past .01
      {.034, .001, CompareOutcome::kInconclusive},    // visible
      {.0520, .002, CompareOutcome::kInconclusive},   // .0487: large is not proved
      {.0550, .002, CompareOutcome::kNoShip},         // .0517
      {.0750, .002, CompareOutcome::kNoShip},
  };
  for (const auto& c : cases) {
    CompareRun run = GoodRun();
    run.cost->mean_kl = c.kl;
    run.cost->kl_stderr = c.error;
    const VerdictRow row = JudgeOne(run);
    EXPECT_EQ(row.outcome, c.outcome) << c.kl << " +- " << c.error << "\n" << LinesOf(row);
  }
}

TEST(Verdict, WithinTheNoiseSaysSo) {
  CompareRun run = GoodRun("q8_0");
  run.cost->mean_kl = .0012;
  EXPECT_TRUE(Says(JudgeOne(run), "not distinguishable"));
  EXPECT_EQ(KlWord(.0012, nullptr), "small");  // without a floor nothing is noise
  EXPECT_EQ(KlWord(.02, nullptr), "visible");
  EXPECT_EQ(KlWord(.2, nullptr), "large");
}

TEST(Verdict, ABaselineThatDiffersFromItselfJudgesNothing) {
  CompareResult result = ResultOf(GoodRun());
  result.noise_floor->mean_kl = .03;
  EXPECT_EQ(Judge(result).rows[0].outcome, CompareOutcome::kInconclusive);
}

TEST(Verdict, PerplexityTop1TokensAndBuckets) {
  CompareRun perplexed = GoodRun();
  perplexed.cost->perplexity = 34.425 * 1.05;
  EXPECT_EQ(JudgeOne(perplexed).outcome, CompareOutcome::kInconclusive);
  perplexed.cost->perplexity = 34.425 * 1.12;
  EXPECT_EQ(JudgeOne(perplexed).outcome, CompareOutcome::kNoShip);

  CompareRun undecided = GoodRun();
  undecided.cost->top1_agreement = .87;
  EXPECT_EQ(JudgeOne(undecided).outcome, CompareOutcome::kInconclusive);

  CompareRun few = GoodRun();
  few.cost->tokens = 1500;
  EXPECT_EQ(JudgeOne(few).outcome, CompareOutcome::kInconclusive);

  CompareRun deep = GoodRun();
  deep.cost->buckets.push_back({4096, 8192, 2000, .09, .004, .8});
  const VerdictRow row = JudgeOne(deep);
  EXPECT_EQ(row.outcome, CompareOutcome::kNoShip);
  EXPECT_TRUE(Says(row, "KL 0.09 at contexts of 4096 to 8192 tokens is large")) << LinesOf(row);
  EXPECT_TRUE(Says(row, "damage grows with context"));
  deep.cost->buckets.back().tokens = 100;  // too few to decide
  EXPECT_EQ(JudgeOne(deep).outcome, CompareOutcome::kShip);
}

TEST(Verdict, NumbersThatAreNotFiniteAreNeverShipped) {
  CompareRun run = GoodRun();
  run.cost->perplexity = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(JudgeOne(run).outcome, CompareOutcome::kNoShip);
  run = GoodRun();
  run.cost->mean_kl = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(JudgeOne(run).outcome, CompareOutcome::kNoShip);
}

TEST(Verdict, RecallByTotalsAndByPairs) {
  // 17 of 20 [64, 95] against 9 of 20 [26, 66]: the intervals touch, so totals alone prove nothing.
  CompareRun run = GoodRun();
  run.cost->recall[0].passed = 3;
  run.cost->recall[1].passed = 6;
  const VerdictRow by_totals = JudgeOne(run);
  EXPECT_EQ(by_totals.outcome, CompareOutcome::kInconclusive) << LinesOf(by_totals);
  EXPECT_TRUE(Says(by_totals, "recall falls from 17 to 9 of 20, which chance may still explain"));
  // Item by item, 8 lost and none gained: McNemar mid-p = 2^-8 = .0039, below .05 / 2 tests.
  const VerdictRow by_pairs = JudgeOne(run, {{"fp8_e4m3", {{"recall", {20, 17, 9, 8, 0}}}, {}, {}}});
  EXPECT_EQ(by_pairs.outcome, CompareOutcome::kNoShip) << LinesOf(by_pairs);
  // 17 against 3 of 20: apart even by totals.
  run.cost->recall[0].passed = 1;
  run.cost->recall[1].passed = 2;
  EXPECT_EQ(JudgeOne(run).outcome, CompareOutcome::kNoShip);
}

TEST(Verdict, TasksThatTellNothingDecideNothing) {
  CompareRun run = GoodRun();
  run.cost->tasks = {{"tool_call", 0, 12, 0, true, "the baseline itself never passes"}};
  run.cost->recall.clear();
  const VerdictRow row = JudgeOne(run);
  EXPECT_EQ(row.outcome, CompareOutcome::kShip);
  EXPECT_TRUE(Says(row, "no task tells anything here"));
  EXPECT_FALSE(Says(row, "tool_call"));
  const std::vector<std::string> list = NotMeasured(ResultOf(run));
  EXPECT_NE(std::find(list.begin(), list.end(), "tool_call: it tells nothing (the baseline itself never passes)"),
            list.end());
}

TEST(Verdict, AScaleOf64IsToBlame) {
  CompareRun run = GoodRun();
  run.cost->mean_kl = 3.2;
  run.cost->kl_stderr = .05;
  run.cost->top1_agreement = .2;
  run.cost->perplexity = 900;
  const RunEvidence evidence{"fp8_e4m3", {}, ScaleUse{64, 64, std::nullopt}, ScaleUse{1, 1, std::nullopt}};
  const CompareVerdict verdict = Judge(ResultOf(run), std::vector{evidence});
  EXPECT_EQ(verdict.rows[0].outcome, CompareOutcome::kNoShip);
  EXPECT_TRUE(Says(verdict.rows[0], "against: the scale of K is to blame: 64 is far above 1.0"))
      << LinesOf(verdict.rows[0]);
  EXPECT_FALSE(Says(verdict.rows[0], "scale of V"));
  EXPECT_NE(verdict.overall.find("the scale of K is to blame"), std::string::npos) << verdict.overall;
  // Where the damage is only visible the scale may be to blame: 64 costs SmolLM2 a KL of .021.
  CompareRun visible = GoodRun();
  visible.cost->mean_kl = .021;
  visible.cost->kl_stderr = .002;
  EXPECT_TRUE(Says(JudgeOne(visible, {evidence}), "unsure: the scale of K may be to blame: 64 is far above 1.0"));
  // A default scale is not blamed, however large the damage.
  const RunEvidence plain{"fp8_e4m3", {}, ScaleUse{}, ScaleUse{}};
  EXPECT_FALSE(Says(JudgeOne(run, {plain}), "to blame"));
  // Nor is any scale while the damage is small.
  EXPECT_FALSE(Says(JudgeOne(GoodRun(), {evidence}), "to blame"));
  // Without evidence the file the scales came from is suspected.
  CompareResult result = ResultOf(run);
  result.options.kv_scales = "scales.json";
  EXPECT_TRUE(Says(Judge(result).rows[0], "'scales.json' are the first suspect"));
}

TEST(Verdict, ScalesAgainstAmax) {
  EXPECT_FALSE(WhyScaleIsSuspect({.03, .09, Interval{1, 1}}).has_value());
  EXPECT_FALSE(WhyScaleIsSuspect({1, 1, Interval{10, 200}}).has_value());  // 1.0 is the engines' default
  EXPECT_TRUE(WhyScaleIsSuspect({1, 1, Interval{.3, 2}}).has_value());     // but it can cut off
  EXPECT_TRUE(WhyScaleIsSuspect({64, 64, Interval{900, 1400}}).has_value());
  EXPECT_TRUE(WhyScaleIsSuspect({.0001, 1, std::nullopt}).has_value());
  EXPECT_FALSE(WhyScaleIsSuspect({.02, 2, std::nullopt}).has_value());
}

TEST(Verdict, NothingToGainIsNoReasonToChange) {
  CompareRun run = GoodRun("fp16");
  run.ratio_to_baseline = 1;
  EXPECT_EQ(JudgeOne(run).outcome, CompareOutcome::kNoShip);
  EXPECT_TRUE(Says(JudgeOne(run), "nothing to gain"));
  CompareResult result = ResultOf(run);
  result.runs[0].speed = CompareSpeed{{}, {{1, 8000, 14.0, .1, 5, {}, {}, {}}}, {}};
  result.runs[1].speed = CompareSpeed{{}, {{1, 8000, 12.0, .1, 5, {}, {}, {}}}, {}};
  EXPECT_EQ(Judge(result).rows[0].outcome, CompareOutcome::kShip);
}

TEST(Verdict, MuchSlowerIsTheUsersDecision) {
  CompareResult result = ResultOf(GoodRun());
  result.runs[0].speed = CompareSpeed{{}, {{1, 8000, 10.0, .1, 5, {}, {}, {}}}, {}};
  result.runs[1].speed = CompareSpeed{{}, {{1, 8000, 13.0, .1, 5, {}, {}, {}}}, {}};
  EXPECT_EQ(Judge(result).rows[0].outcome, CompareOutcome::kInconclusive);
  EXPECT_TRUE(Says(Judge(result).rows[0], "30 % more time"));
}

TEST(Verdict, AbsentFiguresNeverShip) {
  CompareResult interrupted = ResultOf(GoodRun());
  interrupted.complete = false;
  EXPECT_EQ(Judge(interrupted).rows[0].outcome, CompareOutcome::kInconclusive);
  CompareRun run = GoodRun();
  run.cost.reset();
  EXPECT_EQ(JudgeOne(run).outcome, CompareOutcome::kInconclusive);
  CompareResult no_baseline = ResultOf(GoodRun());
  no_baseline.runs.erase(no_baseline.runs.begin());
  EXPECT_EQ(Judge(no_baseline).rows[0].outcome, CompareOutcome::kInconclusive);
  no_baseline.runs.clear();
  EXPECT_TRUE(Judge(no_baseline).rows.empty());
}

TEST(Verdict, OverallNamesTheBestChoiceFirst) {
  CompareResult result = ResultOf(GoodRun("fp8_e4m3"));
  CompareRun pair = GoodRun("q8_0/nvfp4_4over6"), nvfp4 = GoodRun("nvfp4");
  pair.ratio_to_baseline = 2.46;
  pair.cost->mean_kl = .0056;
  nvfp4.ratio_to_baseline = 3.55;
  nvfp4.cost->mean_kl = .075;
  result.runs.push_back(pair);
  result.runs.push_back(nvfp4);
  EXPECT_EQ(
      Judge(result).overall,
      "Ship: q8_0/nvfp4_4over6 (2.46 times the tokens, KL 0.0056), or fp8_e4m3 (2.00 times the tokens, KL 0.008). "
      "Do not ship nvfp4: KL 0.075 is large (above 0.05).");
}

TEST(NotMeasured, NamesContextsNotReachedAndPartsSkipped) {
  CompareResult result = ResultOf(GoodRun());
  result.skipped = {{"arithmetic_chat", "a base model: it has no chat template"}};
  const std::vector<std::string> list = NotMeasured(result);
  const auto has = [&](const std::string& line) { return std::find(list.begin(), list.end(), line) != list.end(); };
  EXPECT_TRUE(has("contexts beyond 2048 tokens (the model takes 8192)"));
  EXPECT_TRUE(has("arithmetic_chat: skipped, a base model: it has no chat template"));
  EXPECT_TRUE(has("languages other than English"));
}

// docs/verdict.md shows each limit's name and value in one row of its table.
TEST(Limits, TheDocumentShowsEachOne) {
  const auto page = ReadFile(HAYPILE_SOURCE_DIR "/docs/verdict.md");
  ASSERT_TRUE(page.ok());
  for (const LimitInfo& info : AllLimits()) {
    EXPECT_EQ(ValueOf(info.limit), info.value);
    const std::string row = fmt::format("| {} | {:g} | {} | {} |", info.name, info.value, info.unit, info.reason);
    EXPECT_NE(page->find(row), std::string::npos) << "docs/verdict.md lacks the row\n" << row;
  }
}

}  // namespace
}  // namespace haypile
