#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "report/compare_tables.h"
#include "report/number_text.h"

// The tables behind the costs: by context, by text, recall, tasks, golden prompts.
namespace haypile {
namespace {

std::string PassedText(int64_t passed, int64_t total) { return CountText(passed) + "/" + CountText(total); }

// Keys of all runs' items in the order they first appear, e.g. texts or tasks by name.
template <typename Key, typename ItemsOf, typename KeyOf>
std::vector<Key> KeysInOrder(const CompareResult& result, ItemsOf items_of, KeyOf key_of) {
  std::vector<Key> keys;
  for (const CompareRun& run : result.runs) {
    if (!run.cost) continue;
    for (const auto& item : items_of(*run.cost)) {
      const Key key = key_of(item);
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

// One row per key, one cell per run: `cell_of(item, run)`, or a dash where the run has no such item.
template <typename Key, typename ItemsOf, typename KeyOf, typename CellOf>
std::vector<TableCell> CellsFor(const CompareResult& result, const Key& key, ItemsOf items_of, KeyOf key_of,
                                CellOf cell_of) {
  std::vector<TableCell> cells;
  for (const CompareRun& run : result.runs) {
    TableCell cell = MissingCell();
    if (run.cost) {
      for (const auto& item : items_of(*run.cost)) {
        if (key_of(item) == key) cell = cell_of(item, run);
      }
    }
    cells.push_back(std::move(cell));
  }
  return cells;
}

void AddLabelled(TableCell label, std::vector<TableCell> cells, TextTable* table) {
  cells.insert(cells.begin(), std::move(label));
  table->AddRow(std::move(cells));
}

}  // namespace

ReportSection BucketsSection(const CompareResult& result) {
  ReportSection section{
      "Damage by context",
      "Mean KL divergence from the baseline in nats per token, and the share of positions with the same "
      "most likely token, by position in the text.",
      TextTable(DtypeColumns(result, "positions")),
      {}};
  using Key = std::pair<int64_t, int64_t>;
  const auto items = [](const CompareCost& cost) -> const auto& { return cost.buckets; };
  const auto key_of = [](const ContextBucket& bucket) { return Key{bucket.from, bucket.to}; };
  for (const Key& key : KeysInOrder<Key>(result, items, key_of)) {
    auto cells =
        CellsFor(result, key, items, key_of, [&](const ContextBucket& bucket, const CompareRun& run) -> TableCell {
          if (run.kv_cache_dtype == result.baseline) return {"0 (itself)", CellTone::kFaint};
          return KlText(bucket.mean_kl) + ", " + PercentText(bucket.top1_agreement);
        });
    AddLabelled(CountText(key.first) + " to " + CountText(key.second), std::move(cells), &section.table);
  }
  return section;
}

ReportSection TextsSection(const CompareResult& result) {
  ReportSection section{"Damage by text",
                        "Perplexity and mean KL divergence from the baseline.",
                        TextTable(DtypeColumns(result, "text")),
                        {}};
  const auto items = [](const CompareCost& cost) -> const auto& { return cost.texts; };
  const auto key_of = [](const TextCost& text) { return text.text; };
  for (const std::string& key : KeysInOrder<std::string>(result, items, key_of)) {
    auto cells = CellsFor(result, key, items, key_of, [&](const TextCost& text, const CompareRun& run) -> TableCell {
      std::string shown = text.perplexity ? FixedText(*text.perplexity, 3) : std::string(kNotMeasuredText);
      if (run.kv_cache_dtype != result.baseline && text.mean_kl) shown += ", KL " + KlText(*text.mean_kl);
      return shown;
    });
    AddLabelled(key, std::move(cells), &section.table);
  }
  return section;
}

ReportSection RecallSection(const CompareResult& result) {
  ReportSection section{
      "Planted-code recall",
      "Codes found again after being planted at a depth of the context, with the 95% Wilson interval.",
      TextTable(DtypeColumns(result, "at (of tokens)")),
      {}};
  using Key = std::pair<int64_t, double>;
  const auto items = [](const CompareCost& cost) -> const auto& { return cost.recall; };
  const auto key_of = [](const RecallPoint& point) { return Key{point.context_tokens, point.depth_fraction}; };
  std::set<std::string> reasons;
  for (const Key& key : KeysInOrder<Key>(result, items, key_of)) {
    const std::string label = PercentText(key.second, 0) + " of " + CountText(key.first);
    bool mute = false;
    auto cells = CellsFor(result, key, items, key_of, [&](const RecallPoint& point, const CompareRun&) -> TableCell {
      mute = mute || point.tells_nothing;
      if (point.tells_nothing && point.reason && reasons.insert(*point.reason).second) {
        section.notes.push_back("† " + label + " tells nothing" + ": " + *point.reason);
      }
      return {PassedText(point.passed, point.total) + " [" + FixedText(point.wilson_low * 100, 0) + "-" +
                  PercentText(point.wilson_high, 0) + "]",
              point.tells_nothing ? CellTone::kFaint : CellTone::kPlain};
    });
    AddLabelled({label + (mute ? " †" : ""), mute ? CellTone::kFaint : CellTone::kPlain}, std::move(cells),
                &section.table);
  }
  return section;
}

ReportSection TasksSection(const CompareResult& result) {
  ReportSection section{"Tasks",
                        "Passed of total. A task that the baseline cannot do, or always does, tells nothing.",
                        TextTable(DtypeColumns(result, "task")),
                        {}};
  const auto items = [](const CompareCost& cost) -> const auto& { return cost.tasks; };
  const auto key_of = [](const TaskResult& task) { return task.name; };
  for (const std::string& key : KeysInOrder<std::string>(result, items, key_of)) {
    bool mute = false;
    std::string reason;
    auto cells = CellsFor(result, key, items, key_of, [&](const TaskResult& task, const CompareRun&) -> TableCell {
      mute = mute || task.tells_nothing;
      if (task.tells_nothing && task.reason) reason = *task.reason;
      return {PassedText(task.passed, task.total), task.tells_nothing ? CellTone::kFaint : CellTone::kPlain};
    });
    if (mute) section.notes.push_back("† " + key + " tells nothing" + (reason.empty() ? "." : ": " + reason));
    AddLabelled({key + (mute ? " †" : ""), mute ? CellTone::kFaint : CellTone::kPlain}, std::move(cells),
                &section.table);
  }
  return section;
}

ReportSection GoldenSection(const CompareResult& result) {
  ReportSection section{"Golden prompts",
                        "Greedy answers against the baseline's: identical, or the first generated token that differs.",
                        TextTable(DtypeColumns(result, "prompt")),
                        {}};
  static const std::vector<GoldenPrompt> kNone;
  const auto items = [](const CompareCost& cost) -> const auto& { return cost.golden ? cost.golden->list : kNone; };
  const auto key_of = [](const GoldenPrompt& golden) { return golden.prompt; };
  for (const std::string& key : KeysInOrder<std::string>(result, items, key_of)) {
    auto cells = CellsFor(result, key, items, key_of, [](const GoldenPrompt& golden, const CompareRun&) -> TableCell {
      if (golden.exact) return {"identical", CellTone::kGood};
      if (!golden.first_divergence) return {"differs", CellTone::kWarn};
      return {"differs at " + CountText(*golden.first_divergence) + " of " + CountText(golden.generated_tokens),
              CellTone::kWarn};
    });
    AddLabelled(key, std::move(cells), &section.table);
  }
  return section;
}

}  // namespace haypile
