#pragma once

#include <string>

#include "report/compare_result.h"
#include "report/text_table.h"

namespace haypile {

// The comparison as GitHub-flavoured Markdown, with the details that the terminal leaves out. Text from the result is
// escaped: it can form neither markup nor HTML.
std::string RenderMarkdown(const CompareResult& result);

std::string MarkdownTable(const TextTable& table);
std::string MarkdownEscape(std::string_view text);

}  // namespace haypile
