#include "report/markdown.h"

#include "report/compare_tables.h"

namespace haypile {
namespace {

void AddSection(const ReportSection& section, bool required, std::string* out) {
  if (section.table.empty() && !required) return;
  *out += "\n## " + MarkdownEscape(section.title) + "\n\n";
  if (section.table.empty()) {
    *out += "Not measured.\n";
    return;
  }
  *out += MarkdownEscape(section.explanation) + "\n\n" + MarkdownTable(section.table);
  if (!section.notes.empty()) *out += '\n';
  for (const std::string& note : section.notes) *out += "- " + MarkdownEscape(note) + '\n';
}

void AddVerdict(const CompareResult& result, std::string* out) {
  *out += "\n## Verdict\n\n";
  if (!result.verdict) {
    *out += "None: too little was measured for one.\n";
    return;
  }
  *out += "**" + MarkdownEscape(result.verdict->overall) + "**\n\n";
  for (const VerdictRow& row : result.verdict->rows) {
    *out += "- **" + MarkdownEscape(row.kv_cache_dtype) + ": " + OutcomeLabel(row.outcome) + "**\n";
    for (const std::string& line : row.lines) *out += "  - " + MarkdownEscape(line) + '\n';
  }
}

}  // namespace

std::string MarkdownEscape(std::string_view text) {
  std::string out;
  for (const char c : WithoutControls(text)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("\\`*_{}[]#|>~!").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string MarkdownTable(const TextTable& table) {
  std::string out = "|";
  for (const TableColumn& column : table.columns()) out += ' ' + MarkdownEscape(column.title) + " |";
  out += "\n|";
  for (const TableColumn& column : table.columns()) out += column.align == Align::kRight ? "---:|" : "---|";
  out += '\n';
  for (const auto& row : table.rows()) {
    out += '|';
    for (const TableCell& cell : row) {
      const std::string mark = cell.tone == CellTone::kStrong && !cell.text.empty() ? "**" : "";
      out += ' ' + mark + MarkdownEscape(cell.text) + mark + " |";
    }
    out += '\n';
  }
  return out;
}

std::string RenderMarkdown(const CompareResult& result) {
  std::string out = "# KV cache comparison: " + MarkdownEscape(result.model) + "\n\n";
  if (!result.complete) out += "**" + MarkdownEscape(CompletenessText(result)) + "**\n\n";
  for (const ReportFact& fact : ReportFacts(result)) out += "- " + fact.label + ": " + MarkdownEscape(fact.text) + '\n';
  AddVerdict(result, &out);
  AddSection(BuysSection(result), true, &out);
  AddSection(SpeedSection(result), true, &out);
  AddSection(CostsSection(result), true, &out);
  AddSection(BucketsSection(result), false, &out);
  AddSection(TextsSection(result), false, &out);
  AddSection(RecallSection(result), false, &out);
  AddSection(TasksSection(result), false, &out);
  AddSection(GoldenSection(result), false, &out);
  AddSection(BandwidthSection(result), false, &out);
  const std::vector<std::string> missing = NotMeasuredLines(result);
  if (!missing.empty()) out += "\n## Not measured\n\n";
  for (const std::string& line : missing) out += "- " + MarkdownEscape(line) + '\n';
  return out;
}

}  // namespace haypile
