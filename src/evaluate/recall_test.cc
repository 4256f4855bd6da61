#include "evaluate/recall.h"

#include <gtest/gtest.h>

#include <set>

#include "evaluate/evaluation_text.h"
#include "evaluate/scripted_generator.h"
#include "evaluate/statistics.h"

namespace haypile {
namespace {

// Reads the prompt as a perfect model would: what follows the question's words where they first stand.
std::string PerfectAnswer(const std::string& prompt) {
  const std::string question = prompt.substr(prompt.rfind("The code of"));
  const size_t planted = prompt.find(question + " ");
  return planted == std::string::npos ? "?" : prompt.substr(planted + question.size(), 12);
}

TEST(Recall, PromptsFitAndHoldTheCodeOnceAtTheDepth) {
  const TextCodec codec = ByteCodec(false);
  RecallOptions options;
  options.context_tokens = {2000, 20000};
  options.seeds = 3;
  const auto items = MakeRecallItems(codec, options);
  ASSERT_TRUE(items.ok());
  ASSERT_EQ(items->size(), 2u * 5 * 3);
  for (const RecallItem& item : *items) {
    const std::string prompt = codec.decode(item.prompt);
    const int64_t size = static_cast<int64_t>(item.prompt.size());
    EXPECT_LE(size, item.context_tokens - kRecallAnswerTokens);
    EXPECT_GT(size, item.context_tokens - kRecallAnswerTokens - 1500);
    const size_t place = prompt.find(item.code);
    ASSERT_NE(place, std::string::npos);
    EXPECT_EQ(prompt.find(item.code, place + 1), std::string::npos);
    EXPECT_EQ(item.prompt.front(), 0);
    // One sentence of the texts has 1,500 bytes at most.
    const double depth = static_cast<double>(item.planted_at_token) / static_cast<double>(size);
    EXPECT_NEAR(depth, item.depth_fraction, .03 + 800. / static_cast<double>(size)) << item.context_tokens;
    EXPECT_LT(static_cast<size_t>(item.planted_at_token), place + 1);
  }
}

TEST(Recall, IsTheSameEveryTimeAndDiffersBySeed) {
  const TextCodec codec = ByteCodec(false);
  RecallOptions options;
  options.context_tokens = {3000};
  options.depths = {.5};
  options.seeds = 6;
  const auto first = MakeRecallItems(codec, options), second = MakeRecallItems(codec, options);
  ASSERT_TRUE(first.ok() && second.ok());
  std::set<std::string> codes;
  std::set<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < first->size(); ++i) {
    EXPECT_EQ((*first)[i].prompt, (*second)[i].prompt);
    codes.insert((*first)[i].code);
    prompts.insert((*first)[i].prompt);
  }
  EXPECT_EQ(codes.size(), 6u);
  EXPECT_EQ(prompts.size(), 6u);
}

TEST(Recall, ContextSizesThatCannotBeAreRefused) {
  const TextCodec codec = ByteCodec(false);
  RecallOptions options;
  options.context_tokens = {kSmallestRecallContext - 1};
  EXPECT_EQ(MakeRecallItems(codec, options).error().code(), ErrorCode::kInvalidArgument);
  options.context_tokens = {1000000};
  EXPECT_EQ(MakeRecallItems(codec, options).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Recall, ScoresTheExactCodeOnly) {
  EXPECT_TRUE(RecallPassed(" 7391-K.", "7391-K"));
  EXPECT_TRUE(RecallPassed("7391-K", "7391-K"));
  EXPECT_TRUE(RecallPassed("\n 7391-K\nand", "7391-K"));
  EXPECT_FALSE(RecallPassed(" 7391-KL", "7391-K"));
  EXPECT_FALSE(RecallPassed(" 7391 K", "7391-K"));
  EXPECT_FALSE(RecallPassed(" not 7391-K", "7391-K"));
  EXPECT_FALSE(RecallPassed(" 73", "7391-K"));
  EXPECT_FALSE(RecallPassed("", "7391-K"));
}

TEST(Recall, APerfectReaderPassesEverywhereAndAGuesserNowhere) {
  const TextCodec codec = ByteCodec(false);
  RecallOptions options;
  options.context_tokens = {1500};
  options.seeds = 2;
  const auto items = MakeRecallItems(codec, options);
  ASSERT_TRUE(items.ok());
  ScriptedGenerator perfect(PerfectAnswer), guesser([](const std::string&) { return " 1234-A."; });
  FailingGenerator failing;
  for (const RecallItem& item : *items) {
    EXPECT_TRUE(AskRecall(perfect, codec, item).value());
    EXPECT_FALSE(AskRecall(guesser, codec, item).value());
    EXPECT_EQ(AskRecall(failing, codec, item).error().code(), ErrorCode::kOutOfBudget);
  }
}

TEST(Recall, SummaryByContextAndDepth) {
  std::vector<RecallItem> items;
  for (double depth : {.1, .9}) {
    for (int seed = 0; seed < 4; ++seed) items.push_back({1024, depth, seed, "1-A", {}, 0});
  }
  const std::vector<bool> baseline = {true, true, true, true, false, false, false, false};
  const std::vector<bool> candidate = {true, true, false, false, true, false, false, false};
  const auto points = SummarizeRecall(items, baseline, candidate);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].passed, 2);
  EXPECT_EQ(points[0].total, 4);
  EXPECT_EQ(points[0].baseline_passed, 4);
  EXPECT_NEAR(points[0].wilson_low, WilsonInterval(2, 4).low, 1e-12);
  // The baseline always passes and the candidate does not: that tells a loss.
  EXPECT_FALSE(points[0].tells_nothing);
  EXPECT_TRUE(points[1].tells_nothing);
  EXPECT_TRUE(SummarizeRecall(items, baseline, baseline)[0].tells_nothing);
}

}  // namespace
}  // namespace haypile
