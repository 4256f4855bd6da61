#pragma once

#include <optional>
#include <string>

namespace haypile {

// Bits of one stored element of a KV cache dtype, block scales included, for keys and values of this head size; of a
// pair "K/V" the mean. Any engine's spelling. Empty for a name that is not known, or "auto".
std::optional<double> ElementBits(const std::string& dtype, int head_dim);

}  // namespace haypile
