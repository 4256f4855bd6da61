#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "report/compare_tables.h"
#include "report/number_text.h"

// Prefill, decode, bandwidth and clock of a comparison.
namespace haypile {
namespace {

using DecodeKey = std::pair<int64_t, int64_t>;  // streams, depth

std::set<int64_t> PromptLengths(const CompareResult& result) {
  std::set<int64_t> lengths;
  for (const CompareRun& run : result.runs) {
    if (!run.speed) continue;
    for (const PrefillPoint& point : run.speed->prefill) lengths.insert(point.prompt_tokens);
  }
  return lengths;
}

std::set<DecodeKey> DecodeKeys(const CompareResult& result) {
  std::set<DecodeKey> keys;
  for (const CompareRun& run : result.runs) {
    if (!run.speed) continue;
    for (const DecodePoint& point : run.speed->decode) keys.insert({point.streams, point.depth});
  }
  return keys;
}

const PrefillPoint* FindPrefill(const CompareRun* run, int64_t prompt_tokens) {
  if (run == nullptr || !run->speed) return nullptr;
  for (const PrefillPoint& point : run->speed->prefill) {
    if (point.prompt_tokens == prompt_tokens) return &point;
  }
  return nullptr;
}

const DecodePoint* FindDecode(const CompareRun* run, const DecodeKey& key) {
  if (run == nullptr || !run->speed) return nullptr;
  for (const DecodePoint& point : run->speed->decode) {
    if (DecodeKey{point.streams, point.depth} == key) return &point;
  }
  return nullptr;
}

bool ClocksDiffer(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b && *b > 0 && std::abs(*a / *b - 1) > kClockTolerance;
}

struct Figure {
  double value;
  double spread;
  double baseline;  // NaN: none
  double baseline_spread;
  bool more_is_better;
  bool clock_differs;
};

// "21.4 ±0.3 (0.95x)"; a tone only where the difference is larger than both spreads and the clock was the same.
TableCell FigureCell(const Figure& figure) {
  std::string text = WithSpread(figure.value, figure.spread);
  CellTone tone = CellTone::kPlain;
  if (std::isfinite(figure.baseline) && figure.baseline > 0) {
    text += " (" + RatioText(figure.value / figure.baseline) + ")";
    const double gain = (figure.value - figure.baseline) * (figure.more_is_better ? 1 : -1);
    const double noise = figure.spread + figure.baseline_spread;
    if (!figure.clock_differs && std::abs(gain) > noise) tone = gain > 0 ? CellTone::kGood : CellTone::kBad;
  }
  if (figure.clock_differs) text += " *";
  return {text, tone};
}

std::string Streams(int64_t streams) { return CountText(streams) + (streams == 1 ? " stream" : " streams"); }

void AddPrefillRows(const CompareResult& result, TextTable* table) {
  const CompareRun* base = result.BaselineRun();
  for (const int64_t length : PromptLengths(result)) {
    std::vector<TableCell> cells{"prefill " + CountText(length) + ", tok/s"};
    const PrefillPoint* reference = FindPrefill(base, length);
    for (const CompareRun& run : result.runs) {
      const PrefillPoint* point = FindPrefill(&run, length);
      if (point == nullptr) {
        cells.push_back(MissingCell());
        continue;
      }
      const bool compares = reference != nullptr && &run != base;
      cells.push_back(FigureCell({point->tok_per_s, point->spread, compares ? reference->tok_per_s : NAN,
                                  compares ? reference->spread : 0, true,
                                  compares && ClocksDiffer(point->clock_mhz, reference->clock_mhz)}));
    }
    table->AddRow(std::move(cells));
  }
}

void AddDecodeRows(const CompareResult& result, TextTable* table) {
  const CompareRun* base = result.BaselineRun();
  int64_t last_streams = 0;
  for (const DecodeKey& key : DecodeKeys(result)) {
    if (key.first != last_streams) table->AddRule();
    last_streams = key.first;
    std::vector<TableCell> cells{Streams(key.first) + " at " + CountText(key.second) + ", ms/token"};
    const DecodePoint* reference = FindDecode(base, key);
    for (const CompareRun& run : result.runs) {
      const DecodePoint* point = FindDecode(&run, key);
      if (point == nullptr) {
        cells.push_back(MissingCell());
        continue;
      }
      const bool compares = reference != nullptr && &run != base;
      cells.push_back(FigureCell({point->ms_per_token, point->spread, compares ? reference->ms_per_token : NAN,
                                  compares ? reference->spread : 0, false,
                                  compares && ClocksDiffer(point->clock_mhz, reference->clock_mhz)}));
    }
    table->AddRow(std::move(cells));
  }
}

// Tokens per second of each stream at the shallowest depth of every stream count.
void AddThroughputRows(const CompareResult& result, TextTable* table) {
  int64_t last_streams = 0;
  for (const DecodeKey& key : DecodeKeys(result)) {
    if (key.first == last_streams) continue;
    if (last_streams == 0) table->AddRule();
    last_streams = key.first;
    std::vector<TableCell> cells{Streams(key.first) + " at " + CountText(key.second) + ", tok/s each"};
    for (const CompareRun& run : result.runs) {
      const DecodePoint* point = FindDecode(&run, key);
      cells.push_back(point != nullptr && point->ms_per_token > 0 ? TableCell(FixedText(1000 / point->ms_per_token, 1))
                                                                  : MissingCell());
    }
    table->AddRow(std::move(cells));
  }
}

void AddSlopeRow(const CompareResult& result, TextTable* table) {
  std::vector<TableCell> cells{"slope, us per 1k of depth"};
  bool any = false;
  for (const CompareRun& run : result.runs) {
    const bool has = run.speed && run.speed->slope_us_per_1k_tokens;
    any = any || has;
    cells.push_back(has ? TableCell(CountText(*run.speed->slope_us_per_1k_tokens, 1)) : MissingCell());
  }
  if (!any) return;
  table->AddRule();
  table->AddRow(std::move(cells));
}

struct ClockGap {
  double size;
  std::string text;
};

void AddClockGap(const std::string& where, const CompareRun& run, const std::optional<double>& clock,
                 const std::string& base_name, const std::optional<double>& base_clock, std::vector<ClockGap>* gaps) {
  if (!ClocksDiffer(clock, base_clock)) return;
  const double gap = *clock / *base_clock - 1;
  gaps->push_back(
      {std::abs(gap), fmt::format("{}: {} ran at {} MHz, {} at {} MHz ({:+.1f}%)", where, run.kv_cache_dtype,
                                  CountText(*clock, 0), base_name, CountText(*base_clock, 0), gap * 100)});
}

}  // namespace

std::vector<std::string> ClockNotes(const CompareResult& result) {
  std::vector<ClockGap> gaps;
  const CompareRun* base = result.BaselineRun();
  if (base == nullptr || !base->speed) return {};
  for (const CompareRun& run : result.runs) {
    if (&run == base || !run.speed) continue;
    for (const PrefillPoint& point : run.speed->prefill) {
      const PrefillPoint* reference = FindPrefill(base, point.prompt_tokens);
      if (reference == nullptr) continue;
      AddClockGap("Prefill of " + CountText(point.prompt_tokens) + " tokens", run, point.clock_mhz, result.baseline,
                  reference->clock_mhz, &gaps);
    }
    for (const DecodePoint& point : run.speed->decode) {
      const DecodePoint* reference = FindDecode(base, {point.streams, point.depth});
      if (reference == nullptr) continue;
      AddClockGap(Streams(point.streams) + " at depth " + CountText(point.depth), run, point.clock_mhz, result.baseline,
                  reference->clock_mhz, &gaps);
    }
  }
  std::stable_sort(gaps.begin(), gaps.end(), [](const ClockGap& a, const ClockGap& b) { return a.size > b.size; });
  std::vector<std::string> notes;
  for (const ClockGap& gap : gaps) notes.push_back(gap.text);
  return notes;
}

ReportSection SpeedSection(const CompareResult& result) {
  ReportSection section{
      "Speed",
      "Medians ± half the interquartile range, dtypes interleaved, the same number of tokens in every "
      "pool; in brackets the ratio to the baseline.",
      TextTable(DtypeColumns(result, "streams at depth")),
      {}};
  AddPrefillRows(result, &section.table);
  AddDecodeRows(result, &section.table);
  AddThroughputRows(result, &section.table);
  AddSlopeRow(result, &section.table);
  if (section.table.empty()) return section;

  constexpr size_t kMaxClockNotes = 3;
  std::vector<std::string> clocks = ClockNotes(result);
  const size_t count = clocks.size();
  if (count > 0) {
    section.notes.push_back(
        fmt::format("* The processor's clock differed from the baseline's by more than {} at {} of the points, so that "
                    "part of their "
                    "difference is the clock and not the dtype:",
                    PercentText(kClockTolerance, 0), count));
    clocks.resize(std::min(count, kMaxClockNotes));
    section.notes.insert(section.notes.end(), clocks.begin(), clocks.end());
    if (count > kMaxClockNotes) section.notes.push_back(fmt::format("and {} more", count - kMaxClockNotes));
  }
  bool has_clock = false;
  for (const CompareRun& run : result.runs) {
    if (!run.speed) {
      section.notes.push_back(run.kv_cache_dtype + " was not timed.");
      continue;
    }
    for (const PrefillPoint& point : run.speed->prefill) has_clock = has_clock || point.clock_mhz;
    for (const DecodePoint& point : run.speed->decode) has_clock = has_clock || point.clock_mhz;
  }
  if (!has_clock) section.notes.push_back("The processor's clock could not be read: a drift of it is not excluded.");
  return section;
}

ReportSection BandwidthSection(const CompareResult& result) {
  ReportSection section{"Memory bandwidth and clock",
                        "Share of the measured read bandwidth that a decode step reaches (weights and cache), what the "
                        "cache alone is read at, and the processor's clock meanwhile.",
                        TextTable(DtypeColumns(result, "measured")),
                        {}};
  for (const DecodeKey& key : DecodeKeys(result)) {
    std::vector<TableCell> cells{Streams(key.first) + ", depth " + CountText(key.second)};
    bool any = false;
    for (const CompareRun& run : result.runs) {
      const DecodePoint* point = FindDecode(&run, key);
      std::string text;
      const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
      if (point != nullptr && point->share_of_bandwidth) add(PercentText(*point->share_of_bandwidth, 0));
      if (point != nullptr && point->kv_gb_per_s) add("KV " + FixedText(*point->kv_gb_per_s, 2) + " GB/s");
      if (point != nullptr && point->clock_mhz) add(CountText(*point->clock_mhz, 0) + " MHz");
      any = any || !text.empty();
      cells.push_back(text.empty() ? MissingCell() : TableCell(text));
    }
    if (any) section.table.AddRow(std::move(cells));
  }
  return section;
}

}  // namespace haypile
