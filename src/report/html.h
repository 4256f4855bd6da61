#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/compare_result.h"

namespace haypile {

// The comparison as one self-contained HTML file: tables, plots and the full JSON, no request to anywhere (a content
// security policy forbids them). `chart_js` is the source of Chart.js 3; without it the tables stand alone and the
// file says what plots need. Text from the result is escaped.
std::string RenderHtml(const CompareResult& result, const std::optional<std::string>& chart_js);

// Chart.js from where CMake found it (HAYPILE_CHART_JS), empty when it cannot be read there now.
std::optional<std::string> InstalledChartJs();

std::string HtmlEscape(std::string_view text);

}  // namespace haypile
