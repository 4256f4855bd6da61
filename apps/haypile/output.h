#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "compare/scales_in_use.h"
#include "report/compare_result.h"

namespace haypile {

// Width of the terminal on standard output, or 120 where there is none; and whether it shows colour (NO_COLOR says no).
int OutputWidth();
bool OutputHasColour();

// Writes the HTML report atomically.
Status WriteHtmlReport(const CompareResult& result, const std::string& path);
Status WriteJsonResult(const CompareResult& result, const std::string& path);

// A line on standard error when the model holds KV scales of its own that caches of these dtypes use, or cannot;
// `scales_path` is --kv-scales.
void TellOfOwnScales(const CheckpointKvScales& own, const std::string& scales_path, std::span<const KvDtype> dtypes);

}  // namespace haypile
