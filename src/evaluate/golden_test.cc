#include "evaluate/golden.h"

#include <gtest/gtest.h>

#include <set>

#include "evaluate/scripted_generator.h"

namespace haypile {
namespace {

TEST(Golden, PromptsAreDistinctAndSomeAreLong) {
  const auto& prompts = GoldenPrompts();
  EXPECT_EQ(prompts.size(), 12u);
  std::set<std::string> names;
  int with_page = 0;
  for (const GoldenPromptText& prompt : prompts) {
    names.insert(prompt.name);
    EXPECT_FALSE(prompt.text.empty());
    EXPECT_LT(prompt.text.size(), 3200u);
    with_page += prompt.text.size() > 1500;
  }
  EXPECT_EQ(names.size(), 12u);
  EXPECT_EQ(with_page, 4);
}

TEST(Golden, FirstDivergence) {
  const std::vector<int32_t> a = {1, 2, 3}, b = {1, 2, 4}, prefix = {1, 2}, empty;
  EXPECT_EQ(FirstDivergence(a, a), std::nullopt);
  EXPECT_EQ(FirstDivergence(a, b), 2);
  EXPECT_EQ(FirstDivergence(a, prefix), 2);
  EXPECT_EQ(FirstDivergence(prefix, a), 2);
  EXPECT_EQ(FirstDivergence(empty, a), 0);
  EXPECT_EQ(FirstDivergence(empty, empty), std::nullopt);
}

TEST(Golden, ComparesEveryPrompt) {
  const TextCodec codec = ByteCodec(false);
  ScriptedGenerator baseline([](const std::string&) { return std::string(100, 'x'); });
  ScriptedGenerator candidate([](const std::string& prompt) {
    std::string text(100, 'x');
    if (prompt.starts_with("The old clock")) text[5] = 'y';
    if (prompt.starts_with("To bake")) text[11] = 'y';
    if (prompt.starts_with("The sky")) text[80] = 'y';  // after the last token that is compared
    return text;
  });
  const auto a = RunGolden(baseline, codec), b = RunGolden(candidate, codec);
  ASSERT_TRUE(a.ok() && b.ok());
  const GoldenResult result = CompareGolden(*a, *b);
  EXPECT_EQ(result.prompts, 12);
  EXPECT_EQ(result.exact, 10);
  EXPECT_DOUBLE_EQ(result.first_divergence_median.value(), 8);
  EXPECT_EQ(result.list[0].first_divergence, 5);
  EXPECT_EQ(result.list[0].text->substr(4, 3), "xyx");
  EXPECT_EQ(result.list[0].generated_tokens, kGoldenNewTokens);
  EXPECT_TRUE(result.list[2].exact);
  EXPECT_FALSE(result.list[2].text.has_value());
  EXPECT_FALSE(CompareGolden(*a, *a).first_divergence_median.has_value());
}

TEST(Golden, AnEnginesErrorIsPassedOn) {
  FailingGenerator failing;
  EXPECT_EQ(RunGolden(failing, ByteCodec(false)).error().code(), ErrorCode::kOutOfBudget);
}

}  // namespace
}  // namespace haypile
