#pragma once

#include <string>
#include <vector>

#include "report/compare_result.h"
#include "report/text_table.h"

namespace haypile {

// The content of a comparison's report, before it is shown: the terminal, Markdown and HTML renderers only lay these
// out, so all three say the same in the same words. A table without rows was not measured.

// A table under its heading, and what has to be said about it.
struct ReportSection {
  std::string title;
  std::string explanation;  // what the figures are, one or two sentences
  TextTable table;
  std::vector<std::string> notes;
};

// What a dtype buys: bytes, tokens, requests, scales. Notes: why a ratio is not theory's.
ReportSection BuysSection(const CompareResult& result);
// Prefill and decode; one column per dtype. Notes: clocks that differ, dtypes that were not timed.
ReportSection SpeedSection(const CompareResult& result);
// One row per dtype: divergence, agreement, perplexity, recall, golden prompts. Notes: noise floor.
ReportSection CostsSection(const CompareResult& result);

// Details, each one column per dtype.
ReportSection BandwidthSection(const CompareResult& result);  // share of bandwidth, clock per decode point
ReportSection BucketsSection(const CompareResult& result);
ReportSection TextsSection(const CompareResult& result);
ReportSection RecallSection(const CompareResult& result);
ReportSection TasksSection(const CompareResult& result);
ReportSection GoldenSection(const CompareResult& result);  // one row per golden prompt

// "smollm2-135m: llama, 30 layers, ..." and the like: label and text.
struct ReportFact {
  std::string label;
  std::string text;
};
std::vector<ReportFact> ReportFacts(const CompareResult& result);

// Sentences such as "at 1 stream and depth 4,096 fp8 ran at 3,300 MHz and bf16 at 3,500 MHz ...", worst first: measured
// points whose clock differs from the baseline's by more than kClockTolerance.
inline constexpr double kClockTolerance = .01;
std::vector<std::string> ClockNotes(const CompareResult& result);

// Parts that were skipped, then what no run measures: "what: why" lines.
std::vector<std::string> NotMeasuredLines(const CompareResult& result);

// "complete", or a sentence that the run was interrupted and the figures present are valid.
std::string CompletenessText(const CompareResult& result);

// The cell of a figure that was not measured.
TableCell MissingCell();
// A column of this title, then one for each dtype.
std::vector<TableColumn> DtypeColumns(const CompareResult& result, const std::string& first);

CellTone ToneOf(CompareOutcome outcome);
// "SHIP", "NO-SHIP", "INCONCLUSIVE"
std::string OutcomeLabel(CompareOutcome outcome);

}  // namespace haypile
