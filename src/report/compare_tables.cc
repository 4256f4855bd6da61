#include "report/compare_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "report/number_text.h"

namespace haypile {
namespace {

std::string ScalesText(const CompareRun& run) {
  if (run.k_scale == run.v_scale) return run.k_scale;
  return "K: " + run.k_scale + "; V: " + run.v_scale;
}

TableCell DtypeCell(const CompareRun& run, const CompareResult& result) {
  return {run.kv_cache_dtype, run.kv_cache_dtype == result.baseline ? CellTone::kFaint : CellTone::kStrong};
}

TableCell OptionalPercent(const std::optional<double>& fraction) {
  return fraction ? TableCell(PercentText(*fraction)) : MissingCell();
}

TableCell PerplexityCell(const std::optional<double>& perplexity, const std::optional<double>& baseline, bool is_base) {
  if (!perplexity) return MissingCell();
  std::string text = FixedText(*perplexity, 3);
  if (!is_base && baseline && std::isfinite(*perplexity) && *baseline > 0) {
    text += fmt::format(" ({:+.2f}%)", (*perplexity / *baseline - 1) * 100);
  }
  return text;
}

TableCell KlCell(const CompareCost& cost, bool is_base) {
  if (is_base) return {"0 (itself)", CellTone::kFaint};
  if (!cost.mean_kl) return MissingCell();
  std::string text = KlText(*cost.mean_kl);
  if (cost.kl_stderr) text += " ±" + KlText(*cost.kl_stderr);
  return text;
}

// Passed of total over the points that tell something.
TableCell RecallCell(const CompareCost& cost) {
  int64_t passed = 0;
  int64_t total = 0;
  for (const RecallPoint& point : cost.recall) {
    if (point.tells_nothing) continue;
    passed += point.passed;
    total += point.total;
  }
  if (cost.recall.empty()) return MissingCell();
  if (total == 0) return {"tells nothing", CellTone::kFaint};
  return CountText(passed) + "/" + CountText(total);
}

TableCell GoldenCell(const CompareCost& cost, bool is_base) {
  if (is_base) return {"itself", CellTone::kFaint};
  if (!cost.golden) return MissingCell();
  std::string text = CountText(cost.golden->exact) + "/" + CountText(cost.golden->prompts);
  if (cost.golden->first_divergence_median) {
    text += ", differ at " + CountText(*cost.golden->first_divergence_median, 0);
  }
  return text;
}

TableCell TasksCell(const CompareCost& cost) {
  int64_t passed = 0;
  int64_t total = 0;
  for (const TaskResult& task : cost.tasks) {
    if (task.tells_nothing) continue;
    passed += task.passed;
    total += task.total;
  }
  if (cost.tasks.empty()) return MissingCell();
  if (total == 0) return {"tell nothing", CellTone::kFaint};
  return CountText(passed) + "/" + CountText(total);
}

std::string ModelText(const CompareModelFacts& facts) {
  std::string text = fmt::format("{}, {} layers, {} query and {} KV heads of {}, {} parameters, {} of weights",
                                 facts.family, facts.layers, facts.query_heads, facts.kv_heads, facts.head_dim,
                                 CountText(facts.parameters), BytesText(facts.weight_bytes));
  if (facts.sliding_window) {
    text += fmt::format(", {} layers with a window of {} tokens", facts.sliding_layers.value_or(facts.layers),
                        CountText(*facts.sliding_window));
  }
  text += ", context " + CountText(facts.context_length);
  text += facts.chat ? ", chat template" : ", no chat template (base model)";
  return text;
}

std::string OptionsText(const CompareOptions& options) {
  const std::string streams = fmt::format("{}", fmt::join(options.streams, "/"));
  std::string text =
      fmt::format("{}, cache budget {}, longest request {} tokens, pages of {} tokens, {} streams, {} threads",
                  NameOf(options.effort), BytesText(options.kv_cache_memory_bytes), CountText(options.max_model_len),
                  options.page_tokens, streams, options.threads);
  if (options.speed_pool_tokens) {
    text += ", speed measured with " + CountText(*options.speed_pool_tokens) + " tokens in every pool";
  }
  if (options.kv_cache_dtype_skip_layers) text += ", layers kept in 16 bits: " + *options.kv_cache_dtype_skip_layers;
  if (options.kv_scales) text += ", scales from " + *options.kv_scales;
  return text;
}

std::string MachineText(const CompareMachine& machine) {
  std::string text = fmt::format("{}, {} cores used, {} kernels", machine.cpu, machine.cores_used, machine.isa);
  if (machine.read_bandwidth_gb_per_s) {
    text += ", reads " + FixedText(*machine.read_bandwidth_gb_per_s, 1) + " GB/s (measured)";
  }
  if (machine.memory_bytes) text += ", " + BytesText(*machine.memory_bytes) + " memory";
  return text;
}

}  // namespace

TableCell MissingCell() { return {std::string(kNotMeasuredText), CellTone::kFaint}; }

std::vector<TableColumn> DtypeColumns(const CompareResult& result, const std::string& first) {
  std::vector<TableColumn> columns{{first}};
  for (const CompareRun& run : result.runs) columns.push_back({run.kv_cache_dtype, Align::kRight});
  return columns;
}

ReportSection BuysSection(const CompareResult& result) {
  ReportSection section{
      "What it buys",
      "Tokens and full-length requests that the same byte budget holds, against the baseline; theory is "
      "the ratio of bits stored per token.",
      TextTable({{"KV cache dtype"},
                 {"bytes/token", Align::kRight},
                 {"tokens", Align::kRight},
                 {"requests", Align::kRight},
                 {"ratio", Align::kRight},
                 {"theory", Align::kRight},
                 {"scales", Align::kLeft, true}}),
      {}};
  for (const CompareRun& run : result.runs) {
    const bool gains = run.ratio_to_baseline > 1;
    section.table.AddRow({DtypeCell(run, result),
                          CountText(run.bytes_per_token),
                          CountText(run.pool_tokens),
                          CountText(run.requests_at_max_len, 1),
                          {RatioText(run.ratio_to_baseline, 3), gains ? CellTone::kGood : CellTone::kPlain},
                          {RatioText(run.ratio_in_theory, 3), CellTone::kFaint},
                          ScalesText(run)});
    if (run.gap_reason) section.notes.push_back(run.kv_cache_dtype + ": " + *run.gap_reason);
  }
  return section;
}

ReportSection CostsSection(const CompareResult& result) {
  ReportSection section{
      "What it costs",
      "Against the baseline, teacher-forced and read through the quantized cache: mean KL divergence in "
      "nats per token ± its standard error, same most likely token (top-1), perplexity. Recall, golden "
      "prompts (identical greedy answers) and tasks count what passed.",
      TextTable({{"KV cache dtype"},
                 {"mean KL", Align::kRight},
                 {"top-1", Align::kRight},
                 {"perplexity", Align::kRight},
                 {"recall", Align::kRight},
                 {"golden", Align::kRight},
                 {"tasks", Align::kRight}}),
      {}};
  bool any = false;
  for (const CompareRun& run : result.runs) {
    if (!run.cost) {
      section.table.AddRow({DtypeCell(run, result), MissingCell(), MissingCell(), MissingCell(), MissingCell(),
                            MissingCell(), MissingCell()});
      continue;
    }
    any = true;
    const bool is_base = run.kv_cache_dtype == result.baseline;
    section.table.AddRow({DtypeCell(run, result), KlCell(*run.cost, is_base),
                          is_base ? TableCell("100%", CellTone::kFaint) : OptionalPercent(run.cost->top1_agreement),
                          PerplexityCell(run.cost->perplexity, run.cost->baseline_perplexity, is_base),
                          RecallCell(*run.cost), GoldenCell(*run.cost, is_base), TasksCell(*run.cost)});
  }
  if (!any) section.table = TextTable(section.table.columns());
  if (result.noise_floor) {
    const NoiseFloor& noise = *result.noise_floor;
    section.notes.push_back(
        fmt::format("Noise floor ({} against itself, {}): KL {}, top-1 {}. Less than this is arithmetic.",
                    result.baseline, noise.how, KlText(noise.mean_kl), PercentText(noise.top1_agreement)));
  } else if (any) {
    section.notes.push_back("The noise floor (the baseline against itself) was not measured.");
  }
  return section;
}

std::vector<ReportFact> ReportFacts(const CompareResult& result) {
  std::vector<ReportFact> facts;
  std::string model = result.model;
  if (result.model_facts.source && *result.model_facts.source != result.model)
    model += " (" + *result.model_facts.source + ")";
  facts.push_back({"Model", model + ": " + ModelText(result.model_facts)});
  facts.push_back({"Machine", MachineText(result.machine)});
  facts.push_back({"Options", OptionsText(result.options)});
  std::string run = "haypile " + result.tool_version;
  if (result.commit) run += " (" + *result.commit + ")";
  run += ", started " + result.started;
  if (result.elapsed_s) run += ", took " + DurationText(*result.elapsed_s);
  facts.push_back({"Run", run + ", " + CompletenessText(result)});
  return facts;
}

std::vector<std::string> NotMeasuredLines(const CompareResult& result) {
  std::vector<std::string> lines;
  for (const SkippedPart& part : result.skipped) lines.push_back(part.what + " (skipped): " + part.why);
  lines.insert(lines.end(), result.not_measured.begin(), result.not_measured.end());
  return lines;
}

std::string CompletenessText(const CompareResult& result) {
  if (result.complete) return "complete";
  return "PARTIAL: interrupted before the end; every figure shown is valid, the others are missing. The same command "
         "resumes.";
}

CellTone ToneOf(CompareOutcome outcome) {
  switch (outcome) {
    case CompareOutcome::kShip:
      return CellTone::kGood;
    case CompareOutcome::kNoShip:
      return CellTone::kBad;
    case CompareOutcome::kInconclusive:
      return CellTone::kWarn;
  }
  return CellTone::kPlain;
}

std::string OutcomeLabel(CompareOutcome outcome) {
  std::string label(NameOf(outcome));
  std::transform(label.begin(), label.end(), label.begin(), [](unsigned char c) { return std::toupper(c); });
  return label;
}

}  // namespace haypile
