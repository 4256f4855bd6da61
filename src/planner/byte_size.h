#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace haypile {

// A count as the engines' flags write it: plain digits ("8500000000"), a small suffix for powers of 1000 ("8.5g",
// "32k", "8GB"), a capital one for powers of 1024 ("8G", "32K": whole numbers only, as vLLM has it; "8.5GiB").
// kInvalidArgument names the flag unless the text is a positive number within the range of int64.
Result<int64_t> ParseCount(std::string_view text, const std::string& flag);

}  // namespace haypile
