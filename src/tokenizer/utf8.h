#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace haypile {

// Bytes of the well-formed UTF-8 character at the start of `text` (Unicode 15.0, table 3-7: no overlong forms, no
// surrogates, nothing above U+10FFFF), 1 to 4; 0 when there is none.
size_t Utf8CharacterLength(std::string_view text);

// The code point of a well-formed character of `length` bytes.
char32_t DecodeUtf8(std::string_view text, size_t length);

void AppendUtf8(char32_t code_point, std::string* out);

// How many of the last bytes of `text` are the beginning of a character that further bytes can still complete, 0 to 3.
size_t IncompleteUtf8Suffix(std::string_view text);

// Length of the longest prefix that is well-formed UTF-8.
size_t ValidUtf8Prefix(std::string_view text);

// Unicode's White_Space property.
bool IsUnicodeSpace(char32_t code_point);

}  // namespace haypile
