#include "evaluate/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace haypile {
namespace {

double PerplexityOf(const BlockMean& nll, const DivergenceSummary& summary) {
  return summary.non_finite > 0 ? std::numeric_limits<double>::quiet_NaN() : std::exp(nll.mean);
}

}  // namespace

void DivergenceAccumulator::Add(std::string_view text, int64_t position, const RowDivergence& row) {
  HAYPILE_CHECK_LE(0, position);
  Sums& sums = blocks_[Key{std::string(text), position / kBlockTokens}];
  if (!row.finite) {
    ++sums.non_finite;
    return;
  }
  ++sums.tokens;
  sums.same_top1 += row.same_top1;
  sums.kl += row.kl;
  sums.baseline_nll += row.baseline_nll;
  sums.candidate_nll += row.candidate_nll;
}

void DivergenceAccumulator::Merge(const DivergenceAccumulator& other) {
  for (const auto& [key, from] : other.blocks_) {
    Sums& sums = blocks_[key];
    sums.tokens += from.tokens;
    sums.non_finite += from.non_finite;
    sums.same_top1 += from.same_top1;
    sums.kl += from.kl;
    sums.baseline_nll += from.baseline_nll;
    sums.candidate_nll += from.candidate_nll;
  }
}

template <typename Predicate>
DivergenceSummary DivergenceAccumulator::Summarize(Predicate belongs) const {
  std::vector<BlockSum> kl, top1, baseline, candidate, change;
  DivergenceSummary summary;
  for (const auto& [key, sums] : blocks_) {
    if (!belongs(key)) continue;
    summary.tokens += sums.tokens;
    summary.non_finite += sums.non_finite;
    kl.push_back({sums.kl, sums.tokens});
    top1.push_back({static_cast<double>(sums.same_top1), sums.tokens});
    baseline.push_back({sums.baseline_nll, sums.tokens});
    candidate.push_back({sums.candidate_nll, sums.tokens});
    change.push_back({sums.candidate_nll - sums.baseline_nll, sums.tokens});
  }
  summary.kl = MeanOfBlocks(kl);
  summary.top1 = MeanOfBlocks(top1);
  summary.baseline_nll = MeanOfBlocks(baseline);
  summary.candidate_nll = MeanOfBlocks(candidate);
  summary.nll_change = MeanOfBlocks(change);
  return summary;
}

DivergenceSummary DivergenceAccumulator::All() const {
  return Summarize([](const Key&) { return true; });
}

DivergenceSummary DivergenceAccumulator::OfText(std::string_view text) const {
  return Summarize([text](const Key& key) { return key.text == text; });
}

DivergenceSummary DivergenceAccumulator::OfBucket(int64_t from, int64_t to) const {
  HAYPILE_CHECK(from % kBlockTokens == 0 && to % kBlockTokens == 0);
  return Summarize([=](const Key& key) { return key.block >= from / kBlockTokens && key.block < to / kBlockTokens; });
}

std::vector<std::string> DivergenceAccumulator::Texts() const {
  std::vector<std::string> texts;
  for (const auto& [key, sums] : blocks_) {
    if (texts.empty() || texts.back() != key.text) texts.push_back(key.text);
  }
  return texts;
}

std::vector<int64_t> DivergenceAccumulator::BucketEdges(int64_t longest_position) {
  std::vector<int64_t> edges = {0};
  for (int64_t edge = 256; edge <= longest_position; edge = edge < 1024 ? 1024 : edge * 2) edges.push_back(edge);
  return edges;
}

std::vector<ContextBucket> DivergenceAccumulator::Buckets() const {
  int64_t longest = 0;
  for (const auto& [key, sums] : blocks_) longest = std::max(longest, (key.block + 1) * kBlockTokens - 1);
  std::vector<ContextBucket> buckets;
  for (int64_t from : BucketEdges(longest)) {
    const int64_t to = from == 0 ? 256 : (from == 256 ? 1024 : from * 2);
    const DivergenceSummary summary = OfBucket(from, to);
    if (summary.tokens == 0) continue;
    ContextBucket bucket{from, to, summary.tokens, summary.kl.mean, std::nullopt, summary.top1.mean};
    if (std::isfinite(summary.kl.stderr_of_mean)) bucket.kl_stderr = summary.kl.stderr_of_mean;
    buckets.push_back(bucket);
  }
  return buckets;
}

void DivergenceAccumulator::FillCost(CompareCost& cost) const {
  const DivergenceSummary all = All();
  cost.tokens = all.tokens;
  cost.texts.clear();
  cost.buckets = Buckets();
  if (all.tokens + all.non_finite == 0) return;
  cost.mean_kl = all.kl.mean;
  if (std::isfinite(all.kl.stderr_of_mean)) cost.kl_stderr = all.kl.stderr_of_mean;
  cost.top1_agreement = all.top1.mean;
  cost.perplexity = PerplexityOf(all.candidate_nll, all);
  cost.baseline_perplexity = PerplexityOf(all.baseline_nll, all);
  for (const std::string& text : Texts()) {
    const DivergenceSummary summary = OfText(text);
    cost.texts.push_back({text, summary.tokens, PerplexityOf(summary.candidate_nll, summary),
                          PerplexityOf(summary.baseline_nll, summary), summary.kl.mean, summary.top1.mean});
  }
}

}  // namespace haypile
