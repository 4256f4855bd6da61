#pragma once

#include <string>
#include <string_view>

namespace haypile {

constexpr char LowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// ASCII letters in lower case; all other bytes, UTF-8 included, as they are, whatever the locale.
std::string LowerCase(std::string_view text);

}  // namespace haypile
