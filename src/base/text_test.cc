#include "base/text.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(LowerCase, ChangesAsciiLettersAlone) {
  EXPECT_EQ(LowerCase("FP8_E4M3 @[`{ az AZ"), "fp8_e4m3 @[`{ az az");
  EXPECT_EQ(LowerCase("\xc3\x84\xC0\xff"), "\xc3\x84\xC0\xff");
  EXPECT_EQ(LowerCase(std::string_view("A\0B", 3)), std::string_view("a\0b", 3));
  EXPECT_EQ(LowerCase(""), "");
}

TEST(LowerCase, OfOneCharacterIsThatOfText) {
  for (int i = 0; i < 256; ++i) {
    const char c = static_cast<char>(i);
    EXPECT_EQ(LowerCase(std::string_view(&c, 1)), std::string(1, LowerCase(c))) << i;
    EXPECT_EQ(LowerCase(c) != c, i >= 'A' && i <= 'Z') << i;
  }
}

}  // namespace
}  // namespace haypile
