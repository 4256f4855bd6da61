#include "report/terminal.h"

#include <algorithm>

#include "report/compare_tables.h"
#include "report/text_table.h"

namespace haypile {
namespace {

constexpr int kNarrowest = 40;
constexpr int kIndent = 2;

class TerminalPage {
 public:
  TerminalPage(int width, bool colour) : width_(std::max(width, kNarrowest)), colour_(colour) {}

  // `lead` before the first line, aligned blanks before the others.
  void Paragraph(const std::string& lead, std::string_view text, CellTone tone) {
    const std::string clean_lead = WithoutControls(lead);
    const size_t offset = DisplayWidth(clean_lead);
    const size_t room = static_cast<size_t>(width_) - std::min(offset, static_cast<size_t>(width_) / 2);
    bool first = true;
    for (const std::string& line : WrapText(WithoutControls(text), room)) {
      out_ += first ? clean_lead : std::string(offset, ' ');
      out_ += Toned(line, tone, colour_) + '\n';
      first = false;
    }
  }

  void Heading(std::string_view title) { out_ += '\n' + Toned(title, CellTone::kStrong, colour_) + '\n'; }

  void Section(const ReportSection& section, std::string_view when_missing) {
    Heading(section.title);
    if (section.table.empty()) {
      Paragraph("  ", when_missing, CellTone::kWarn);
      return;
    }
    out_ += section.table.Render(width_, colour_, kIndent);
    for (const std::string& note : section.notes) Paragraph("  ", note, CellTone::kFaint);
  }

  std::string Take() && { return std::move(out_); }

 private:
  int width_;
  bool colour_;
  std::string out_;
};

void AddDetails(const CompareResult& result, TerminalPage* page) {
  for (const ReportSection& section : {RecallSection(result), TasksSection(result)}) {
    if (!section.table.empty()) page->Section(section, "");
  }
}

void AddVerdict(const CompareResult& result, TerminalPage* page) {
  page->Heading("Verdict");
  if (!result.verdict) {
    page->Paragraph("  ", "None: too little was measured for one.", CellTone::kWarn);
    return;
  }
  for (const VerdictRow& row : result.verdict->rows) {
    page->Paragraph("  ", row.kv_cache_dtype + ": " + OutcomeLabel(row.outcome), ToneOf(row.outcome));
    for (const std::string& line : row.lines) page->Paragraph("    ", line, CellTone::kPlain);
  }
  page->Paragraph("  ", result.verdict->overall, CellTone::kStrong);
}

}  // namespace

std::string RenderTerminal(const CompareResult& result, int width, bool colour) {
  TerminalPage page(width, colour);
  for (const ReportFact& fact : ReportFacts(result)) {
    page.Paragraph(fact.label + std::string(9 - std::min<size_t>(fact.label.size(), 8), ' '), fact.text,
                   CellTone::kPlain);
  }
  page.Section(BuysSection(result), "Not computed.");
  page.Section(SpeedSection(result), "Not measured.");
  page.Section(CostsSection(result), "Not measured.");
  AddDetails(result, &page);
  const std::vector<std::string> missing = NotMeasuredLines(result);
  if (!missing.empty()) {
    page.Heading("Not measured");
    for (const std::string& line : missing) page.Paragraph("  - ", line, CellTone::kPlain);
  }
  AddVerdict(result, &page);
  return std::move(page).Take();
}

}  // namespace haypile
