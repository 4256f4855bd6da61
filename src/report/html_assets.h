#pragma once

#include <string_view>

namespace haypile {

// The style sheet and the script of the HTML report.
extern const std::string_view kReportCss;
extern const std::string_view kReportScript;

}  // namespace haypile
