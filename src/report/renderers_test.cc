#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "base/json.h"
#include "report/compare_sample_test.h"
#include "report/compare_tables.h"
#include "report/html.h"
#include "report/markdown.h"
#include "report/terminal.h"
#include "report/text_table.h"

namespace haypile {
namespace {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// A run stopped after the capacity and some of the baseline's speed.
CompareResult Interrupted() {
  CompareResult result = SampleComparison();
  result.complete = false;
  result.verdict.reset();
  result.noise_floor.reset();
  for (CompareRun& run : result.runs) {
    run.cost.reset();
    run.speed.reset();
  }
  result.runs[0].speed = SampleComparison().runs[0].speed;
  result.runs[0].speed->decode.resize(1);
  result.runs[0].speed->slope_us_per_1k_tokens.reset();
  return result;
}

TEST(RenderTerminal, SaysTheFigures) {
  const std::string text = RenderTerminal(SampleComparison(), 120, false);
  for (const char* part :
       {"What it buys", "Speed", "What it costs", "Verdict", "Not measured", "6,480", "3.552x", "3.556x",
        "0.075 ±0.002", "37.601 (+9.23%)", "12.8 ±0.1", "one FP32 scale per tensor, 1.0 (default)", "nvfp4: NO-SHIP",
        "whole pages of 16 tokens",
        "Noise floor (bf16 against itself, chunks of 128 tokens instead of 512): KL 0.00090",
        "AVX-512 kernels (skipped): this processor has none", "the baseline itself never makes a valid call"}) {
    EXPECT_TRUE(Has(text, part)) << part << "\n" << text;
  }
  EXPECT_FALSE(Has(text, "PARTIAL"));
  EXPECT_FALSE(Has(text, "\x1b"));
}

TEST(RenderTerminal, KeepsToTheWidth) {
  for (const int width : {60, 80, 100, 120, 200}) {
    std::istringstream lines(RenderTerminal(SampleComparison(), width, false));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width)) << line;
    }
  }
}

TEST(RenderTerminal, SaysWhenClocksDiffer) {
  const std::string text = RenderTerminal(SampleComparison(), 200, false);
  EXPECT_TRUE(Has(text, "clock differed from the baseline's by more than 1% at 11 of the points")) << text;
  EXPECT_TRUE(Has(text, "nvfp4 ran at 3,1"));
  CompareResult same = SampleComparison();
  for (CompareRun& run : same.runs) {
    for (PrefillPoint& point : run.speed->prefill) point.clock_mhz = 3300;
    for (DecodePoint& point : run.speed->decode) point.clock_mhz = 3300;
  }
  EXPECT_FALSE(Has(RenderTerminal(same, 200, false), "clock differed"));
  for (CompareRun& run : same.runs) {
    for (PrefillPoint& point : run.speed->prefill) point.clock_mhz.reset();
    for (DecodePoint& point : run.speed->decode) point.clock_mhz.reset();
  }
  EXPECT_TRUE(Has(RenderTerminal(same, 200, false), "clock could not be read"));
}

TEST(RenderTerminal, PartialResultsSayWhatIsMissing) {
  const std::string text = RenderTerminal(Interrupted(), 120, false);
  EXPECT_TRUE(Has(text, "PARTIAL: interrupted"));
  EXPECT_TRUE(Has(text, "nvfp4 was not timed."));
  EXPECT_TRUE(Has(text, "What it costs\n  Not measured.\n"));
  EXPECT_TRUE(Has(text, "None: too little was measured for one."));
  EXPECT_FALSE(Has(text, "slope"));
}

TEST(Renderers, SurviveAnEmptyResultAndWildNumbers) {
  const CompareResult empty;
  EXPECT_TRUE(Has(RenderTerminal(empty, 80, true), "Not computed."));
  EXPECT_TRUE(Has(RenderMarkdown(empty), "Not measured."));
  EXPECT_TRUE(Has(RenderHtml(empty, std::nullopt), "Not measured."));

  CompareResult wild = SampleComparison();
  for (CompareRun& run : wild.runs) {
    run.cost->perplexity = std::numeric_limits<double>::infinity();
    run.cost->mean_kl = std::numeric_limits<double>::quiet_NaN();
    run.cost->buckets[0].mean_kl = 1e300;
    run.pool_tokens = std::numeric_limits<int64_t>::max();
    run.speed->decode[0].ms_per_token = 0;
    run.speed->prefill[0].tok_per_s = std::numeric_limits<double>::quiet_NaN();
  }
  EXPECT_TRUE(Has(RenderTerminal(wild, 40, false), "n/a"));
  EXPECT_TRUE(Has(RenderMarkdown(wild), "n/a"));
  EXPECT_TRUE(Has(RenderHtml(wild, std::nullopt), "n/a"));
}

TEST(Renderers, OneRunIsABaselineOnly) {
  CompareResult alone = SampleComparison();
  alone.runs.resize(1);
  alone.verdict->rows.clear();
  EXPECT_TRUE(Has(RenderTerminal(alone, 80, false), "0 (itself)"));
}

TEST(RenderTerminal, StringsCannotDriveTheTerminal) {
  CompareResult result = SampleComparison();
  const std::string evil = "\x1b]0;title\x07";
  result.model = evil;
  result.machine.cpu = evil;
  result.runs[1].k_scale = evil;
  result.runs[1].gap_reason = evil;
  result.skipped[0].why = evil;
  result.verdict->overall = evil;
  result.verdict->rows[0].lines[0] = evil;
  const std::string text = RenderTerminal(result, 100, false);
  EXPECT_FALSE(Has(text, "\x1b"));
  EXPECT_FALSE(Has(text, "\x07"));
}

TEST(RenderMarkdown, HasTablesAndEscapes) {
  const std::string text = RenderMarkdown(SampleComparison());
  EXPECT_TRUE(Has(text, "| **nvfp4** | 6,480 | 82,752 | 10.1 | 3.552x | 3.556x |")) << text;
  EXPECT_TRUE(Has(text, "---:|"));
  EXPECT_FALSE(Has(text, "<script>"));
  EXPECT_TRUE(Has(text, "&lt;script\\>alert(1)"));
  EXPECT_EQ(MarkdownEscape("a|b*c<d>&"), "a\\|b\\*c&lt;d\\>&amp;");
}

TEST(RenderHtml, EscapesEveryText) {
  CompareResult result = SampleComparison();
  const std::string evil = "</script><script>alert('x')</script>\"&";
  result.model = evil;
  result.machine.cpu = evil;
  result.verdict->overall = evil;
  const std::string text = RenderHtml(result, std::nullopt);
  EXPECT_FALSE(Has(text, "<script>"));  // the only script element is the JSON
  EXPECT_EQ(Count(text, "<script"), 1u);
  EXPECT_EQ(Count(text, "</script>"), 1u);
  EXPECT_TRUE(Has(text, "&lt;/script&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
}

TEST(RenderHtml, CarriesTheWholeResult) {
  const CompareResult sample = SampleComparison();
  const std::string text = RenderHtml(sample, "/* chart */");
  const std::string open = "<script type=\"application/json\" id=\"haypile-result\">";
  const size_t start = text.find(open) + open.size();
  Result<Json> json = ParseJson(text.substr(start, text.find("</script>", start) - start));
  ASSERT_TRUE(json.ok());
  Result<CompareResult> back = CompareResultFromJson(*json);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, sample);
}

TEST(RenderHtml, AsksNobodyForAnything) {
  const std::string text = RenderHtml(SampleComparison(), std::nullopt);
  for (const char* part : {"http:", "https:", "src=", "href=", "@import", "url("})
    EXPECT_FALSE(Has(text, part)) << part;
  EXPECT_TRUE(Has(text, "default-src 'none'"));
}

TEST(RenderHtml, PlotsNeedChartJsAndTheTablesDoNot) {
  const std::string without = RenderHtml(SampleComparison(), std::nullopt);
  EXPECT_TRUE(Has(without, "libjs-chart.js"));
  EXPECT_TRUE(Has(without, "37.601 (+9.23%)"));
  EXPECT_FALSE(Has(without, "plot-capacity\""));
  const std::string with = RenderHtml(SampleComparison(), "var a = \"</script>\", b = \"<!--\";");
  for (const char* id : {"plot-capacity", "plot-depth", "plot-kl", "plot-recall"}) {
    EXPECT_TRUE(Has(with, "id=\"" + std::string(id) + "\"")) << id;
  }
  EXPECT_TRUE(Has(with, "var a = \"<\\/script>\", b = \"<\\!--\";"));
  EXPECT_FALSE(Has(with, "No plots"));
}

TEST(RenderHtml, SaysWhenPartial) {
  const std::string text = RenderHtml(Interrupted(), std::nullopt);
  EXPECT_TRUE(Has(text, "PARTIAL"));
  EXPECT_FALSE(Has(RenderHtml(SampleComparison(), std::nullopt), "PARTIAL"));
}

}  // namespace
}  // namespace haypile
