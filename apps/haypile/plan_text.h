#pragma once

#include <string>

#include "planner/plan_document.h"

namespace haypile {

// A plan for people: the model, the memory account, the table by dtype, where the bytes go, log lines, flags, warnings.
// `explain` adds the derivation of every dtype.
std::string PlanText(const PlanDocument& document, bool explain, int width, bool colour);

}  // namespace haypile
