#pragma once

#include <string>
#include <string_view>

namespace haypile {

// Unicode normalization form C (UAX #15). Bytes that are not UTF-8 stay as they are, and nothing combines across them.
std::string NormalizeNfc(std::string_view text);

}  // namespace haypile
