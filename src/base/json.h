#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace haypile {

// The project's one door to the JSON library. Objects keep their order. Include in .cc files only; headers that
// need the name use base/json_fwd.h.
using Json = nlohmann::ordered_json;

// Parses text; kMalformed names the byte and what was expected. Depth is bounded (kMaxJsonDepth).
Result<Json> ParseJson(std::string_view text);
inline constexpr int kMaxJsonDepth = 64;

// Text with `indent` spaces a level (-1: one line); invalid UTF-8 becomes U+FFFD, never an exception.
std::string DumpJson(const Json& json, int indent = 2);

}  // namespace haypile
