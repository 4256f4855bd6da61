#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(Utf8, EveryCodePointGoesThereAndBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(c, &text);
    ASSERT_EQ(Utf8CharacterLength(text), text.size()) << static_cast<uint32_t>(c);
    ASSERT_EQ(DecodeUtf8(text, text.size()), c);
    for (size_t size = 1; size < text.size(); ++size) {
      ASSERT_EQ(Utf8CharacterLength(std::string_view(text).substr(0, size)), 0u);
      ASSERT_EQ(IncompleteUtf8Suffix("x" + text.substr(0, size)), size);
    }
    ASSERT_EQ(IncompleteUtf8Suffix(text), 0u);
  }
}

TEST(Utf8, RefusesIllFormedCharacters) {
  for (const char* text : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(Utf8CharacterLength(text), 0u);
    EXPECT_EQ(ValidUtf8Prefix(text), 0u);
    EXPECT_EQ(IncompleteUtf8Suffix(text), 0u);
  }
  EXPECT_EQ(ValidUtf8Prefix("a\u00E9\xC3"), 3u);
}

}  // namespace
}  // namespace haypile
