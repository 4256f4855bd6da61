#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

using Pieces = std::vector<std::string_view>;
using Behavior = SplitStep::Behavior;

Pieces SplitNamed(std::string_view name, std::string_view text) {
  static std::vector<PreTokenizer> kept;
  kept.push_back(PreTokenizer::Create(FindPreTokenizer(name).value().steps).value());
  return kept.back().Split(text);
}

Pieces SplitBy(const std::string& pattern, Behavior behavior, std::string_view text) {
  return PreTokenizer::Create({{pattern, behavior}}).value().Split(text);
}

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(SplitNamed("gpt-2", "I'll say  hello123!\n\n x"),
            (Pieces{"I", "'ll", " say", " ", " hello", "123", "!", "\n\n", " x"}));
  EXPECT_EQ(SplitNamed("gpt-2", "IT'S  "), (Pieces{"IT", "'", "S", "  "}));
}

TEST(PreTokenizer, SmollmCutsDigitsOneByOne) {
  EXPECT_EQ(SplitNamed("smollm", "a 123"), (Pieces{"a", " ", "1", "2", "3"}));
  EXPECT_EQ(SplitNamed("smollm", "x\u00BD"), (Pieces{"x", "\u00BD"})) << "every number character counts";
}

TEST(PreTokenizer, Llama3TakesThreeDigits) {
  EXPECT_EQ(SplitNamed("llama-bpe", "12345 I'LL (go)\n\n  x"),
            (Pieces{"123", "45", " I", "'LL", " (", "go", ")\n\n", " ", " x"}));
  EXPECT_TRUE(FindPreTokenizer("llama-bpe")->ignore_merges);
  EXPECT_TRUE(FindPreTokenizer("llama3")->add_bos);
}

TEST(PreTokenizer, Qwen2TakesOneDigitAndNormalizes) {
  EXPECT_EQ(SplitNamed("qwen2", "12 don't\r\n"), (Pieces{"1", "2", " don", "'t", "\r\n"}));
  EXPECT_TRUE(FindPreTokenizer("qwen2")->nfc);
}

TEST(PreTokenizer, TekkenCutsAtCapitals) {
  EXPECT_EQ(SplitNamed("tekken", "camelCase HTTPServer a/b"), (Pieces{"camel", "Case", " HTTPServer", " a", "/b"}));
}

TEST(PreTokenizer, UnknownNameIsUnsupported) {
  const auto result = FindPreTokenizer("gpt-17");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(result.error().message().find("'gpt-17'"), std::string::npos);
}

TEST(PreTokenizer, Behaviors) {
  EXPECT_EQ(SplitBy("-", Behavior::kIsolated, "a-b--"), (Pieces{"a", "-", "b", "-", "-"}));
  EXPECT_EQ(SplitBy("-", Behavior::kKeepGaps, "a-b--"), (Pieces{"a", "b"}));
  EXPECT_EQ(SplitBy("[a-z]", Behavior::kKeepMatches, "a-b--"), (Pieces{"a", "b"}));
  EXPECT_EQ(SplitBy("-", Behavior::kMergedWithPrevious, "a-b--"), (Pieces{"a-", "b-", "-"}));
  EXPECT_EQ(SplitBy("-", Behavior::kMergedWithNext, "a-b--"), (Pieces{"a", "-b", "-", "-"}));
}

TEST(PreTokenizer, EmptyMatchesCutNothing) {
  EXPECT_EQ(SplitBy("x*", Behavior::kIsolated, "axb"), (Pieces{"a", "x", "b"}));
  EXPECT_EQ(SplitBy("(?=b)", Behavior::kIsolated, "\u00E9b"), (Pieces{"\u00E9b"}));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodes) {
  EXPECT_EQ(SplitBy("\\s", Behavior::kIsolated, "a\u0085b\u3000c"), (Pieces{"a", "\u0085", "b", "\u3000", "c"}));
  EXPECT_EQ(SplitBy("[^\\s]+", Behavior::kIsolated, "a\u180Eb c"), (Pieces{"a\u180Eb", " ", "c"}));
  EXPECT_EQ(SplitBy("\\\\s", Behavior::kIsolated, "a\\sb"), (Pieces{"a", "\\s", "b"})) << "an escaped backslash";
}

TEST(PreTokenizer, BytesThatAreNotUtf8StandAlone) {
  EXPECT_EQ(SplitNamed("gpt-2", "ab\xFF\xFE cd"), (Pieces{"ab", "\xFF\xFE", " cd"}));
  EXPECT_TRUE(SplitNamed("gpt-2", "").empty());
}

TEST(PreTokenizer, PatternBeyondTheMatchLimitLeavesThePieceWhole) {
  const std::string text(40, 'a');
  EXPECT_EQ(SplitBy("(a+)+b", Behavior::kIsolated, text), (Pieces{text}));
}

}  // namespace
}  // namespace haypile
