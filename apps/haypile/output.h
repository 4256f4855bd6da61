#pragma once

#include <string>

#include "base/result.h"
#include "report/compare_result.h"

namespace haypile {

// Width of the terminal on standard output, or 120 where there is none; and whether it shows colour (NO_COLOR says no).
int OutputWidth();
bool OutputHasColour();

// Writes the HTML report atomically.
Status WriteHtmlReport(const CompareResult& result, const std::string& path);
Status WriteJsonResult(const CompareResult& result, const std::string& path);

// A line on standard error when the model holds KV scales and `scales_path` (--kv-scales) does not replace them.
Status WarnOfIgnoredKvScales(const std::string& model_path, const std::string& scales_path);

}  // namespace haypile
