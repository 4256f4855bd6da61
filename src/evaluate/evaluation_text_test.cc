#include "evaluate/evaluation_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/file.h"

namespace haypile {
namespace {

TEST(EvaluationText, NamesStandInOrder) {
  EXPECT_EQ(EvaluationTextNames(), (std::vector<std::string_view>{"narrative", "essays", "handbook", "almanac"}));
  EXPECT_TRUE(EvaluationText("novel").empty());
  EXPECT_TRUE(EvaluationText("").empty());
}

TEST(EvaluationText, EveryByteOfTheFilesIsEmbedded) {
  for (std::string_view name : EvaluationTextNames()) {
    const auto file = ReadFile(std::string(HAYPILE_SOURCE_DIR "/data/text/").append(name).append(".txt"));
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_GT(file->size(), 45000u);
    EXPECT_EQ(EvaluationText(name), *file) << name;
  }
}

TEST(EvaluationText, IsPlainAscii) {
  for (std::string_view name : EvaluationTextNames()) {
    const std::string_view text = EvaluationText(name);
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }))
        << name;
  }
}

}  // namespace
}  // namespace haypile
