#include "report/html.h"

#include "base/file.h"
#include "base/json.h"
#include "report/compare_tables.h"
#include "report/html_assets.h"

namespace haypile {
namespace {

std::string_view ClassOf(CellTone tone) {
  switch (tone) {
    case CellTone::kPlain:
      return "";
    case CellTone::kStrong:
      return "strong";
    case CellTone::kFaint:
      return "faint";
    case CellTone::kGood:
      return "good";
    case CellTone::kBad:
      return "bad";
    case CellTone::kWarn:
      return "warn";
  }
  return "";
}

// `text` so that no HTML parser can see the end of a script element in it.
std::string InScript(std::string text, std::string_view less_than) {
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += less_than.size()) {
    text.replace(at, 1, less_than);
  }
  return text;
}

// Code in whose strings and regular expressions an HTML parser sees neither the end of the script element nor a
// comment; the added backslash means nothing there.
std::string CodeInScript(std::string code) {
  for (const std::string_view mark : {"</script", "</SCRIPT", "<!--"}) {
    for (size_t at = 0; (at = code.find(mark, at)) != std::string::npos; at += 2) code.insert(at + 1, 1, '\\');
  }
  return code;
}

std::string TableHtml(const TextTable& table) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  const auto align = [&table](size_t c) { return table.columns()[c].align == Align::kRight ? "num" : "text"; };
  for (size_t c = 0; c < table.columns().size(); ++c) {
    out +=
        std::string("<th scope=\"col\" class=\"") + align(c) + "\">" + HtmlEscape(table.columns()[c].title) + "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (size_t r = 0; r < table.rows().size(); ++r) {
    const auto& row = table.rows()[r];
    out += r > 0 && table.HasRule(r) ? "<tr class=\"ruled\">" : "<tr>";
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string classes = std::string(align(c)) + " " + std::string(ClassOf(row[c].tone));
      const std::string open = c == 0 ? "<th scope=\"row\"" : "<td";
      out += open + " class=\"" + classes + "\">" + HtmlEscape(row[c].text) + (c == 0 ? "</th>" : "</td>");
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// `plots`: ids of the canvases that stand above the table.
void AddSection(const ReportSection& section, bool required, const std::string& plots, std::string* out) {
  if (section.table.empty() && !required) return;
  *out += "<section><h2>" + HtmlEscape(section.title) + "</h2>\n";
  if (section.table.empty()) {
    *out += "<p class=\"warn\">Not measured.</p></section>\n";
    return;
  }
  *out += "<p class=\"explain\">" + HtmlEscape(section.explanation) + "</p>\n" + plots + TableHtml(section.table);
  if (!section.notes.empty()) {
    *out += "<ul class=\"notes\">";
    for (const std::string& note : section.notes) *out += "<li>" + HtmlEscape(note) + "</li>";
    *out += "</ul>\n";
  }
  *out += "</section>\n";
}

std::string PlotHtml(std::string_view id) { return "<div class=\"plots\" id=\"" + std::string(id) + "\"></div>\n"; }

void AddVerdict(const CompareResult& result, std::string* out) {
  *out += "<section class=\"verdict\"><h2>Verdict</h2>\n";
  if (!result.verdict) {
    *out += "<p class=\"warn\">None: too little was measured for one.</p></section>\n";
    return;
  }
  *out += "<p class=\"overall\">" + HtmlEscape(result.verdict->overall) + "</p>\n<div class=\"cards\">\n";
  for (const VerdictRow& row : result.verdict->rows) {
    const std::string tone(ClassOf(ToneOf(row.outcome)));
    *out += "<div class=\"card " + tone + "-edge\"><h3>" + HtmlEscape(row.kv_cache_dtype) + " <span class=\"badge " +
            tone + "\">" + OutcomeLabel(row.outcome) + "</span></h3><ul>";
    for (const std::string& line : row.lines) *out += "<li>" + HtmlEscape(line) + "</li>";
    *out += "</ul></div>\n";
  }
  *out += "</div></section>\n";
}

// What each dtype wrote around the first difference.
void AddGoldenTexts(const CompareResult& result, std::string* out) {
  std::string body;
  for (const CompareRun& run : result.runs) {
    if (!run.cost || !run.cost->golden) continue;
    for (const GoldenPrompt& golden : run.cost->golden->list) {
      if (golden.exact || !golden.text || !golden.baseline_text) continue;
      body += "<dt>" + HtmlEscape(run.kv_cache_dtype) + ": " + HtmlEscape(golden.prompt) + "</dt><dd><span>" +
              HtmlEscape(result.baseline) + "</span> " + HtmlEscape(*golden.baseline_text) + "</dd><dd><span>" +
              HtmlEscape(run.kv_cache_dtype) + "</span> " + HtmlEscape(*golden.text) + "</dd>\n";
    }
  }
  if (!body.empty()) {
    *out += "<details><summary>The answers that differ</summary><dl class=\"answers\">\n" + body + "</dl></details>\n";
  }
}

void AddBody(const CompareResult& result, bool with_plots, std::string* out) {
  const auto plot = [with_plots](std::string_view id) { return with_plots ? PlotHtml(id) : std::string(); };
  *out += "<header><h1>KV cache comparison: " + HtmlEscape(result.model) + "</h1>\n";
  if (!result.complete) *out += "<p class=\"banner\">" + HtmlEscape(CompletenessText(result)) + "</p>\n";
  *out += "<dl class=\"facts\">";
  for (const ReportFact& fact : ReportFacts(result)) {
    *out += "<dt>" + HtmlEscape(fact.label) + "</dt><dd>" + HtmlEscape(fact.text) + "</dd>\n";
  }
  *out += "</dl></header>\n";
  if (!with_plots) {
    *out +=
        "<p class=\"banner\">No plots: they need Chart.js (Debian's package libjs-chart.js) where the report is "
        "written.</p>\n";
  }
  AddVerdict(result, out);
  AddSection(BuysSection(result), true, plot("plot-capacity"), out);
  AddSection(SpeedSection(result), true, plot("plot-depth"), out);
  AddSection(CostsSection(result), true, "", out);
  AddSection(BucketsSection(result), false, plot("plot-kl"), out);
  AddSection(TextsSection(result), false, "", out);
  AddSection(RecallSection(result), false, plot("plot-recall"), out);
  AddSection(TasksSection(result), false, "", out);
  AddSection(GoldenSection(result), false, "", out);
  AddGoldenTexts(result, out);
  AddSection(BandwidthSection(result), false, "", out);
  const std::vector<std::string> missing = NotMeasuredLines(result);
  if (missing.empty()) return;
  *out += "<section><h2>Not measured</h2><ul>";
  for (const std::string& line : missing) *out += "<li>" + HtmlEscape(line) + "</li>";
  *out += "</ul></section>\n";
}

}  // namespace

std::string HtmlEscape(std::string_view text) {
  std::string out;
  for (const char c : WithoutControls(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::optional<std::string> InstalledChartJs() {
  constexpr uint64_t kLimitBytes = 4 << 20;
  Result<std::string> file = ReadFile(HAYPILE_CHART_JS, kLimitBytes);
  if (!file.ok()) return std::nullopt;
  return std::move(file).value();
}

std::string RenderHtml(const CompareResult& result, const std::optional<std::string>& chart_js) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>KV cache comparison: ";
  out += HtmlEscape(result.model) + "</title>\n<style>" + std::string(kReportCss) + "</style></head><body><main>\n";
  AddBody(result, chart_js.has_value(), &out);
  out += "<footer>The full result stands in this file as JSON (" + std::string(kCompareSchema) +
         "), in the element with the id <code>haypile-result</code>.</footer>\n</main>\n";
  out += "<script type=\"application/json\" id=\"haypile-result\">" +
         InScript(DumpJson(ToJson(result), -1), "\\u003c") + "</script>\n";
  if (chart_js) {
    out += "<script>" + CodeInScript(*chart_js) + "</script>\n<script>" + std::string(kReportScript) + "</script>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace haypile
