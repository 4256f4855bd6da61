#include "report/text_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace haypile {
namespace {

size_t WidestLine(const std::string& text) {
  std::istringstream lines(text);
  size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, DisplayWidth(line));
  return widest;
}

TextTable SampleTable() {
  TextTable table({{"name"}, {"tokens", Align::kRight}, {"note", Align::kLeft, true}});
  table.AddRow({"bf16", "1,000", "none"});
  table.AddRow({"nvfp4", "35 ±1", "one scale per block of sixteen elements"});
  return table;
}

TEST(TextTable, AlignsColumnsByCharactersNotBytes) {
  EXPECT_EQ(SampleTable().Render(80, false),
            "name   tokens  note\n"
            "bf16    1,000  none\n"
            "nvfp4   35 ±1  one scale per block of sixteen elements\n");
}

TEST(TextTable, WrappingColumnsGiveWayFirst) {
  EXPECT_EQ(SampleTable().Render(37, false, 2),
            "  name   tokens  note\n"
            "  bf16    1,000  none\n"
            "  nvfp4   35 ±1  one scale per block\n"
            "                 of sixteen elements\n");
}

TEST(TextTable, ATableThatCannotShrinkIsCutAndRepeatsTheFirstColumn) {
  TextTable table({{"name"}, {"first", Align::kRight}, {"second", Align::kRight}});
  table.AddRow({"bf16", "1", "2"});
  EXPECT_EQ(table.Render(14, false), "name  first\nbf16      1\n\nname  second\nbf16       2\n");
  EXPECT_EQ(table.Render(1, false), "name  first\nbf16      1\n\nname  second\nbf16       2\n");
}

TEST(TextTable, KeepsToTheWidth) {
  for (int width = 32; width < 90; ++width) {
    EXPECT_LE(WidestLine(SampleTable().Render(width, false)), static_cast<size_t>(width));
  }
}

TEST(TextTable, OneColumnAndNoRows) {
  TextTable table({{"only"}});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.Render(10, false), "only\n");
}

TEST(TextTable, ColourChangesNoPositions) {
  TextTable table({{"a"}, {"b", Align::kRight}});
  table.AddRow({{"x", CellTone::kGood}, {"12", CellTone::kBad}});
  EXPECT_EQ(table.Render(80, true), "\x1b[2ma\x1b[0m  \x1b[2m b\x1b[0m\n\x1b[32mx\x1b[0m  \x1b[31m12\x1b[0m\n");
}

TEST(TextTable, RulesStandBeforeTheNextRow) {
  TextTable table({{"a"}, {"b"}});
  table.AddRow({"1", "2"});
  table.AddRule();
  table.AddRow({"3", "4"});
  EXPECT_EQ(table.Render(80, false), "a  b\n1  2\n────\n3  4\n");
}

TEST(TextTable, CellsCannotDriveTheTerminal) {
  TextTable table({{"a"}});
  table.AddRow(
      {"\x1b[31mred\n\t\x7f\xC2\x9B"
       "1\xff±"});
  EXPECT_EQ(table.Render(80, true), "\x1b[2ma\x1b[0m\n?[31mred????1?±\n");
}

TEST(WrapText, BreaksAtSpacesAndCutsLongWords) {
  EXPECT_EQ(WrapText("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(WrapText("abcdefgh ij", 3), (std::vector<std::string>{"abc", "def", "gh", "ij"}));
  EXPECT_EQ(WrapText("±±±±", 2), (std::vector<std::string>{"±±", "±±"}));
  EXPECT_EQ(WrapText("", 5), (std::vector<std::string>{""}));
  EXPECT_EQ(WrapText("ab", 0), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace haypile
