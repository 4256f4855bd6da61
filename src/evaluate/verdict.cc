#include "evaluate/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluate/cost_judgement.h"
#include "evaluate/speed_judgement.h"
#include "evaluate/verdict_limits.h"

namespace haypile {
namespace {

const RunEvidence* FindEvidence(std::span<const RunEvidence> evidence, const std::string& dtype) {
  const auto found = std::find_if(evidence.begin(), evidence.end(),
                                  [&](const RunEvidence& entry) { return entry.kv_cache_dtype == dtype; });
  return found == evidence.end() ? nullptr : &*found;
}

std::string CapacityLine(const CompareRun& run) {
  std::string line = fmt::format(
      "buys: {:.2f} times the tokens in the same memory ({} tokens, {:.1f} requests of full "
      "length)",
      run.ratio_to_baseline, run.pool_tokens, run.requests_at_max_len);
  if (run.gap_reason) {
    line += fmt::format("; in theory {:.2f}, because {}", run.ratio_in_theory, *run.gap_reason);
  }
  return line;
}

// Lines that put the blame on scales, for a run with damage: certain only where the divergence is large.
std::vector<std::string> ScaleLines(const CompareResult& result, const RunEvidence* evidence, bool large) {
  std::vector<std::string> lines;
  if (evidence != nullptr && (evidence->k_scale || evidence->v_scale)) {
    for (const auto& [name, use] : {std::pair{"K", &evidence->k_scale}, std::pair{"V", &evidence->v_scale}}) {
      if (!use->has_value()) continue;
      if (const auto why = WhyScaleIsSuspect(**use)) {
        lines.push_back(
            fmt::format("the scale of {} {} to blame: {}; measure again with 1.0 or scales from calibration", name,
                        large ? "is" : "may be", *why));
      }
    }
  } else if (result.options.kv_scales) {
    lines.push_back(fmt::format("the scales from '{}' are the first suspect: measure again without them",
                                *result.options.kv_scales));
  }
  return lines;
}

void AddLines(VerdictRow& row, std::string_view prefix, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) row.lines.push_back(fmt::format("{}: {}", prefix, line));
}

VerdictRow JudgeRun(const CompareResult& result, const CompareRun& run, const RunEvidence* evidence) {
  VerdictRow row{run.kv_cache_dtype, CompareOutcome::kInconclusive, {CapacityLine(run)}};
  const CompareRun* baseline = result.BaselineRun();
  const NoiseFloor* floor = result.noise_floor ? &*result.noise_floor : nullptr;
  SpeedJudgement speed;
  CostJudgement cost;
  if (baseline != nullptr && baseline->speed && run.speed) {
    speed = JudgeSpeed(*baseline->speed, *run.speed);
    AddLines(row, "speed", speed.lines);
  }
  if (run.cost) {
    cost = JudgeCost(*run.cost, floor, evidence);
    AddLines(row, "costs", cost.costs);
  } else {
    cost.unsure.push_back("its cost was not measured");
  }
  if (baseline == nullptr) cost.unsure.push_back("there is no run of the baseline to judge by");
  if (!result.complete) cost.unsure.push_back("the comparison was interrupted");
  if (speed.much_slower)
    cost.unsure.push_back("it is much slower somewhere: whether memory is worth it is yours to say");
  if (run.ratio_to_baseline < ValueOf(Limit::kGainTokens) && !speed.any_faster) {
    cost.against.push_back("it holds no more tokens than the baseline and is not faster: there is nothing to gain");
  }
  if (cost.large_divergence || !cost.unsure.empty()) {
    // First, because it is the one reason that the user can mend.
    const std::vector<std::string> scales = ScaleLines(result, evidence, cost.large_divergence);
    std::vector<std::string>& reasons = cost.large_divergence ? cost.against : cost.unsure;
    reasons.insert(reasons.begin(), scales.begin(), scales.end());
  }
  if (!cost.against.empty()) {
    row.outcome = CompareOutcome::kNoShip;
    AddLines(row, "against", cost.against);
  } else if (!cost.unsure.empty()) {
    AddLines(row, "unsure", cost.unsure);
  } else {
    row.outcome = CompareOutcome::kShip;
    row.lines.push_back("why: no cost measured here exceeds its limit");
  }
  return row;
}

std::string InShort(const CompareRun& run) {
  std::string text = fmt::format("{} ({:.2f} times the tokens", run.kv_cache_dtype, run.ratio_to_baseline);
  if (run.cost && run.cost->mean_kl && std::isfinite(*run.cost->mean_kl)) {
    text += fmt::format(", KL {:.2g}", *run.cost->mean_kl);
  }
  return text + ")";
}

// Why this row is not to be shipped: its first reason, without the prefix.
std::string FirstReason(const VerdictRow& row) {
  for (const std::string& line : row.lines) {
    for (std::string_view prefix : {"against: ", "unsure: "}) {
      if (line.starts_with(prefix)) return line.substr(prefix.size());
    }
  }
  return "";
}

std::string Overall(const CompareResult& result, const std::vector<VerdictRow>& rows) {
  std::vector<const CompareRun*> ship;
  std::vector<std::string> not_ship, unsure;
  size_t row = 0;
  for (const CompareRun& run : result.runs) {
    if (run.kv_cache_dtype == result.baseline) continue;
    const VerdictRow& judged = rows[row++];
    if (judged.outcome == CompareOutcome::kShip) {
      ship.push_back(&run);
    } else {
      auto& list = judged.outcome == CompareOutcome::kNoShip ? not_ship : unsure;
      list.push_back(fmt::format("{}: {}", run.kv_cache_dtype, FirstReason(judged)));
    }
  }
  if (rows.empty()) return "There is nothing to judge: only the baseline was measured.";
  std::sort(ship.begin(), ship.end(),
            [](const CompareRun* a, const CompareRun* b) { return a->ratio_to_baseline > b->ratio_to_baseline; });
  std::vector<std::string> names;
  for (const CompareRun* run : ship) names.push_back(InShort(*run));
  std::string text = ship.empty() ? fmt::format("Stay with {}.", result.baseline)
                                  : fmt::format("Ship: {}.", fmt::join(names, ", or "));
  if (!not_ship.empty()) text += fmt::format(" Do not ship {}.", fmt::join(not_ship, "; "));
  if (!unsure.empty()) text += fmt::format(" Inconclusive: {}.", fmt::join(unsure, "; "));
  return text;
}

// The longest context that any cost was measured at.
int64_t DeepestCostTokens(const CompareResult& result) {
  int64_t deepest = 0;
  for (const CompareRun& run : result.runs) {
    if (!run.cost) continue;
    for (const ContextBucket& bucket : run.cost->buckets) {
      const int64_t limit = result.options.max_model_len > 0 ? result.options.max_model_len : bucket.to;
      deepest = std::max(deepest, std::min(bucket.to, limit));
    }
    for (const RecallPoint& point : run.cost->recall) deepest = std::max(deepest, point.context_tokens);
  }
  return deepest;
}

}  // namespace

std::optional<std::string> WhyScaleIsSuspect(const ScaleUse& use) {
  if (use.ratio_to_amax) {
    if (use.ratio_to_amax->low < ValueOf(Limit::kScaleClips)) {
      return fmt::format("{:g} is {:.2g} times what the largest value needs, which is cut off", use.smallest,
                         use.ratio_to_amax->low);
    }
    if (use.ratio_to_amax->high > ValueOf(Limit::kScaleTooWide) && use.largest != 1) {
      return fmt::format("{:g} is {:.3g} times what the largest value needs, so that small values lose their bits",
                         use.largest, use.ratio_to_amax->high);
    }
    return std::nullopt;
  }
  if (use.largest > ValueOf(Limit::kScaleHigh)) {
    return fmt::format(
        "{:g} is far above 1.0 and above what keys and values need, so that small values lose their bits", use.largest);
  }
  if (use.smallest < ValueOf(Limit::kScaleLow)) {
    return fmt::format("{:g} is so small that large values are cut off", use.smallest);
  }
  return std::nullopt;
}

CompareVerdict Judge(const CompareResult& result, std::span<const RunEvidence> evidence) {
  CompareVerdict verdict;
  for (const CompareRun& run : result.runs) {
    if (run.kv_cache_dtype == result.baseline) continue;
    verdict.rows.push_back(JudgeRun(result, run, FindEvidence(evidence, run.kv_cache_dtype)));
  }
  verdict.overall = Overall(result, verdict.rows);
  return verdict;
}

std::vector<std::string> NotMeasured(const CompareResult& result) {
  std::vector<std::string> list = {"long reasoning: answers of thousands of tokens, where small errors add up",
                                   "languages other than English", "sampling: every answer was the most likely one",
                                   "your own prompts and tasks"};
  const int64_t deepest = DeepestCostTokens(result);
  if (deepest == 0) {
    list.push_back("any cost at all");
  } else if (deepest < result.model_facts.context_length) {
    list.push_back(
        fmt::format("contexts beyond {} tokens (the model takes {})", deepest, result.model_facts.context_length));
  }
  std::set<std::string> silent;
  for (const CompareRun& run : result.runs) {
    if (!run.cost || run.kv_cache_dtype == result.baseline) continue;
    for (const TaskResult& task : run.cost->tasks) {
      if (task.tells_nothing && silent.insert(task.name).second) {
        list.push_back(fmt::format("{}: it tells nothing ({})", task.name, task.reason.value_or("no reason given")));
      }
    }
    const bool recall_silent =
        !run.cost->recall.empty() && std::all_of(run.cost->recall.begin(), run.cost->recall.end(),
                                                 [](const RecallPoint& point) { return point.tells_nothing; });
    if (recall_silent && silent.insert("recall").second) {
      list.push_back(
          fmt::format("recall: it tells nothing ({})", run.cost->recall.front().reason.value_or("no reason given")));
    }
  }
  for (const SkippedPart& part : result.skipped) list.push_back(fmt::format("{}: skipped, {}", part.what, part.why));
  return list;
}

}  // namespace haypile
