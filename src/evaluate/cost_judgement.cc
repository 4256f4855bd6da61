#include "evaluate/cost_judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluate/verdict_limits.h"

namespace haypile {
namespace {

struct Bounds {
  double low, high;
};

Bounds OneSided(double mean, std::optional<double> stderr_of_mean) {
  const double half = ValueOf(Limit::kConfidence) * stderr_of_mean.value_or(0);
  return {mean - half, mean + half};
}

bool IsNoise(double mean_kl, const NoiseFloor* floor) {
  return floor != nullptr && mean_kl <= ValueOf(Limit::kNoiseMultiple) * floor->mean_kl;
}

// One task, or recall as a whole.
struct PassCounts {
  std::string name;
  int64_t passed = 0;
  int64_t baseline_passed = 0;
  int64_t total = 0;
};

const PairedCounts* FindPairs(const RunEvidence* evidence, const std::string& name) {
  if (evidence == nullptr) return nullptr;
  for (const auto& [pair_name, counts] : evidence->pairs) {
    if (pair_name == name) return &counts;
  }
  return nullptr;
}

void JudgeDivergence(const CompareCost& cost, const NoiseFloor* floor, CostJudgement& judgement) {
  if (!cost.mean_kl) {
    judgement.unsure.push_back("the divergence from the baseline was not measured");
    return;
  }
  const double kl = *cost.mean_kl;
  if (!std::isfinite(kl)) {
    judgement.against.push_back("its logits are not finite numbers");
    judgement.large_divergence = true;
    return;
  }
  std::string line = fmt::format("KL {:.2g}", kl);
  if (cost.kl_stderr) line += fmt::format(" +- {:.1g}", *cost.kl_stderr);
  line += " nats a token";
  if (floor != nullptr && floor->mean_kl > 0)
    line += fmt::format(", {:.2g} times the noise floor", kl / floor->mean_kl);
  const std::string_view word = KlWord(kl, floor);
  line += word == "noise" ? ": not distinguishable from the baseline's own noise" : fmt::format(": {}", word);
  judgement.costs.push_back(line);

  if (floor != nullptr && floor->mean_kl > ValueOf(Limit::kFloorBroken)) {
    judgement.unsure.push_back(fmt::format(
        "the baseline differs from itself by KL {:.2g}, so that no divergence can be judged", floor->mean_kl));
    return;
  }
  const Bounds bounds = OneSided(kl, cost.kl_stderr);
  if (bounds.low > ValueOf(Limit::kKlVisible) && !IsNoise(kl, floor)) {
    judgement.against.push_back(fmt::format("KL {:.2g} is large (above {:.2g})", kl, ValueOf(Limit::kKlVisible)));
    judgement.large_divergence = true;
  } else if (bounds.high > ValueOf(Limit::kKlSmall) && !IsNoise(kl, floor)) {
    judgement.unsure.push_back(
        kl > ValueOf(Limit::kKlSmall)
            ? fmt::format("KL {:.2g} is {}: only tasks of your own can say whether it matters", kl, word)
            : fmt::format("KL {:.2g} is small, but its error reaches past {:.2g}: more tokens would decide", kl,
                          ValueOf(Limit::kKlSmall)));
  }
  if (static_cast<double>(cost.tokens) < ValueOf(Limit::kFewestTokens)) {
    judgement.unsure.push_back(fmt::format("it stands on {} tokens alone", cost.tokens));
  }
}

void JudgeBuckets(const CompareCost& cost, const NoiseFloor* floor, CostJudgement& judgement) {
  const ContextBucket* first = nullptr;
  const ContextBucket* last = nullptr;
  for (const ContextBucket& bucket : cost.buckets) {
    if (static_cast<double>(bucket.tokens) < ValueOf(Limit::kFewestBucketTokens)) continue;
    if (first == nullptr) first = &bucket;
    last = &bucket;
    const Bounds bounds = OneSided(bucket.mean_kl, bucket.kl_stderr);
    if (judgement.large_divergence || IsNoise(bucket.mean_kl, floor)) continue;
    const std::string where =
        fmt::format("KL {:.2g} at contexts of {} to {} tokens", bucket.mean_kl, bucket.from, bucket.to);
    if (bounds.low > ValueOf(Limit::kKlVisible)) {
      judgement.against.push_back(where + " is large");
      judgement.large_divergence = true;
    } else if (bucket.mean_kl > ValueOf(Limit::kKlVisible)) {
      judgement.unsure.push_back(where + " may be large");
    }
  }
  if (first != nullptr && last != first && last->mean_kl > 2 * first->mean_kl && !IsNoise(last->mean_kl, floor)) {
    judgement.costs.push_back(fmt::format("damage grows with context: KL {:.2g} up to {} tokens, {:.2g} beyond {}",
                                          first->mean_kl, first->to, last->mean_kl, last->from));
  }
}

void JudgeTop1(const CompareCost& cost, const NoiseFloor* floor, CostJudgement& judgement) {
  if (!cost.top1_agreement || !std::isfinite(*cost.top1_agreement)) return;
  const double reference = floor != nullptr ? floor->top1_agreement : 1;
  const double drop = reference - *cost.top1_agreement;
  std::string line = fmt::format("the same first choice in {:.1f} % of tokens", 100 * *cost.top1_agreement);
  if (floor != nullptr) line += fmt::format(" (the baseline with itself: {:.1f} %)", 100 * reference);
  judgement.costs.push_back(line);
  if (drop > ValueOf(Limit::kTop1Drop)) {
    judgement.unsure.push_back(fmt::format("{:.0f} % of first choices change", 100 * drop));
  }
}

void JudgePerplexity(const CompareCost& cost, CostJudgement& judgement) {
  if (!cost.perplexity || !cost.baseline_perplexity) return;
  const double before = *cost.baseline_perplexity, after = *cost.perplexity;
  if (!std::isfinite(after) && std::isfinite(before)) {
    judgement.against.push_back("its perplexity is not a finite number");
    judgement.large_divergence = true;
    return;
  }
  if (!(before > 0) || !std::isfinite(before)) {
    judgement.unsure.push_back("the baseline's own perplexity is not a finite number");
    return;
  }
  const double ratio = after / before;
  judgement.costs.push_back(
      fmt::format("perplexity {:.2f} against {:.2f} ({:+.1f} %)", after, before, 100 * (ratio - 1)));
  if (ratio > ValueOf(Limit::kPerplexityNoShip)) {
    judgement.against.push_back(fmt::format("perplexity rises by {:.0f} %", 100 * (ratio - 1)));
  } else if (ratio > ValueOf(Limit::kPerplexityShip)) {
    judgement.unsure.push_back(fmt::format("perplexity rises by {:.1f} %", 100 * (ratio - 1)));
  }
}

// Chance of a loss this large by luck alone. With the items' pairs: McNemar, mid-p. From totals alone: 0 when the two
// Wilson intervals do not touch, 1 otherwise - a cautious rule, as it forgets that the items were the same.
double ChanceOfLoss(const PassCounts& counts, const PairedCounts* pairs) {
  if (pairs != nullptr) return pairs->lost > pairs->gained ? McNemar(pairs->lost, pairs->gained).mid_p : 1;
  if (counts.passed >= counts.baseline_passed) return 1;
  return Overlap(WilsonInterval(counts.passed, counts.total), WilsonInterval(counts.baseline_passed, counts.total)) ? 1
                                                                                                                    : 0;
}

void JudgePasses(const PassCounts& counts, const PairedCounts* pairs, int tests, CostJudgement& judgement) {
  const Interval wilson = WilsonInterval(counts.passed, counts.total);
  judgement.costs.push_back(fmt::format("{}: {} of {} right, the baseline {} (95 % interval {:.0f} to {:.0f} %)",
                                        counts.name, counts.passed, counts.total, counts.baseline_passed,
                                        100 * wilson.low, 100 * wilson.high));
  const double chance = ChanceOfLoss(counts, pairs);
  const double loss = static_cast<double>(counts.baseline_passed - counts.passed) / static_cast<double>(counts.total);
  const std::string what =
      fmt::format("{} falls from {} to {} of {}", counts.name, counts.baseline_passed, counts.passed, counts.total);
  if (chance < ValueOf(Limit::kSignificance) / tests) {
    judgement.against.push_back(what + ", more than chance explains");
  } else if (chance < ValueOf(Limit::kSignificance) || loss >= ValueOf(Limit::kSuspectLoss)) {
    judgement.unsure.push_back(what + ", which chance may still explain");
  }
}

void JudgeTasks(const CompareCost& cost, const RunEvidence* evidence, CostJudgement& judgement) {
  std::vector<PassCounts> telling;
  PassCounts recall{"recall", 0, 0, 0};
  for (const RecallPoint& point : cost.recall) {
    if (!point.baseline_passed) continue;
    recall.passed += point.passed;
    recall.baseline_passed += *point.baseline_passed;
    recall.total += point.total;
  }
  // Pooled over all depths, silent points included: leaving out those would select for the baseline's luck.
  const bool recall_tells = std::any_of(cost.recall.begin(), cost.recall.end(),
                                        [](const RecallPoint& point) { return !point.tells_nothing; });
  if (recall.total > 0 && recall_tells) telling.push_back(recall);
  for (const TaskResult& task : cost.tasks) {
    if (task.tells_nothing || !task.baseline_passed || task.total == 0) continue;
    telling.push_back({task.name, task.passed, *task.baseline_passed, task.total});
  }
  for (const PassCounts& counts : telling) {
    JudgePasses(counts, FindPairs(evidence, counts.name), static_cast<int>(telling.size()), judgement);
  }
  if (telling.empty()) judgement.costs.push_back("no task tells anything here: the verdict rests on divergence alone");
}

}  // namespace

std::string_view KlWord(double mean_kl, const NoiseFloor* floor) {
  if (IsNoise(mean_kl, floor)) return "noise";
  if (mean_kl <= ValueOf(Limit::kKlSmall)) return "small";
  return mean_kl <= ValueOf(Limit::kKlVisible) ? "visible" : "large";
}

CostJudgement JudgeCost(const CompareCost& cost, const NoiseFloor* floor, const RunEvidence* evidence) {
  CostJudgement judgement;
  JudgeDivergence(cost, floor, judgement);
  JudgeBuckets(cost, floor, judgement);
  JudgeTop1(cost, floor, judgement);
  JudgePerplexity(cost, judgement);
  JudgeTasks(cost, evidence, judgement);
  if (cost.golden && cost.golden->prompts > 0) {
    std::string line =
        fmt::format("{} of {} golden prompts continue identically", cost.golden->exact, cost.golden->prompts);
    if (cost.golden->first_divergence_median) {
      line += fmt::format(", the others part after {:.0f} tokens (median)", *cost.golden->first_divergence_median);
    }
    judgement.costs.push_back(line);
  }
  return judgement;
}

}  // namespace haypile
