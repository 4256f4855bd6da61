#pragma once

#include <string>

#include "report/compare_result.h"

namespace haypile {

// The comparison for people at a terminal: buys, speed, costs, verdict, and what was not measured, in lines of at most
// `width` characters (40 at least). A partial result shows what is there and says so. `colour` adds ANSI sequences;
// nothing in the result can add others.
std::string RenderTerminal(const CompareResult& result, int width, bool colour);

}  // namespace haypile
