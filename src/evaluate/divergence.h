#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/row_divergence.h"
#include "evaluate/statistics.h"
#include "report/compare_result.h"

namespace haypile {

// What a set of positions says together. Means are over the finite positions.
struct DivergenceSummary {
  int64_t tokens = 0;      // finite positions
  int64_t non_finite = 0;  // positions whose logits were no numbers, in no mean below
  BlockMean kl;            // nats per token, with its standard error
  BlockMean top1;          // share of positions with the same first choice
  BlockMean baseline_nll;  // nats per token; exp() of it is the perplexity
  BlockMean candidate_nll;
  BlockMean nll_change;  // candidate - baseline at the same positions; exp() of it is the ratio of perplexities
};

// Collects CompareRows() over texts and positions. What it keeps are sums over blocks of kBlockTokens consecutive
// positions of a text, from which every mean, bucket and standard error follows; so accumulators merge, rows may come
// in any order, and memory stays in kilobytes.
//
// Why blocks: neighbouring tokens share their context, and their divergences come in bursts. An error computed as if
// tokens were independent is too small by a factor of 1.5 to 3; means of 64-token blocks are nearly independent. Texts
// as clusters would be safer still, but four texts are too few for an error.
class DivergenceAccumulator {
 public:
  static constexpr int64_t kBlockTokens = 64;

  // `position` is the token's index in the text's context (how many tokens it can see before it).
  void Add(std::string_view text, int64_t position, const RowDivergence& row);
  // As if all of the other's rows had been added here. The two must not share a (text, position).
  void Merge(const DivergenceAccumulator& other);

  DivergenceSummary All() const;
  DivergenceSummary OfText(std::string_view text) const;
  // Positions from <= position < to, over all texts; both multiples of kBlockTokens.
  DivergenceSummary OfBucket(int64_t from, int64_t to) const;
  std::vector<std::string> Texts() const;  // sorted

  // Lower edges of the context buckets: 0, 256, 1k, 2k, 4k, ... doubling.
  static std::vector<int64_t> BucketEdges(int64_t longest_position);
  // Buckets that hold at least one token.
  std::vector<ContextBucket> Buckets() const;

  // Fills mean_kl, kl_stderr, top1_agreement, both perplexities, tokens, texts and buckets of `cost`. A perplexity is
  // NaN when any position was not finite: such a model is broken, not slightly worse.
  void FillCost(CompareCost& cost) const;

 private:
  struct Key {
    std::string text;
    int64_t block;
    auto operator<=>(const Key&) const = default;
  };
  struct Sums {
    int64_t tokens = 0;
    int64_t non_finite = 0;
    int64_t same_top1 = 0;
    double kl = 0;
    double baseline_nll = 0;
    double candidate_nll = 0;
  };
  template <typename Predicate>
  DivergenceSummary Summarize(Predicate belongs) const;

  std::map<Key, Sums> blocks_;
};

}  // namespace haypile
