#pragma once

#include <string_view>
#include <vector>

namespace haypile {

// The four texts of data/text (CC0), built into the program: about 50 kB of ASCII each, one paragraph a line.

// "narrative", "essays", "handbook", "almanac", in this order.
std::vector<std::string_view> EvaluationTextNames();

// The text's bytes as in data/text/NAME.txt; empty for an unknown name.
std::string_view EvaluationText(std::string_view name);

}  // namespace haypile
