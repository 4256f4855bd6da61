#include "probe/probe_judgement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace haypile {
namespace {

constexpr int64_t kLongestBlock = 64, kWantedBlocks = 16, kShortestBlock = 15;
// Mean square, in square nats, from which on a server that no run resembles is taken for another model's: engines that
// run the same weights in BF16 are within .1 nats of each other at most tokens.
constexpr double kOtherModelSquare = 0.25;

using Series = std::vector<double>;

// Means over `blocks` runs of consecutive values, of lengths that differ by at most one.
Series BlockMeans(const Series& values, int64_t blocks) {
  const auto size = static_cast<int64_t>(values.size());
  Series means;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = size * block / blocks, end = size * (block + 1) / blocks;
    means.push_back(std::accumulate(values.begin() + begin, values.begin() + end, 0.0) /
                    static_cast<double>(end - begin));
  }
  return means;
}

double Mean(const Series& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// a_i b_i of differences: product(a - from, b - from).
Series Products(std::span<const double> a, std::span<const double> b, std::span<const double> from) {
  Series products(a.size());
  for (size_t i = 0; i < a.size(); ++i) products[i] = (a[i] - from[i]) * (b[i] - from[i]);
  return products;
}

Series SquaredDistance(std::span<const double> a, std::span<const double> b) { return Products(a, a, b); }

// The mean of a series over its blocks with Student's t.
Interval IntervalOfMean(const Series& values, int64_t blocks) {
  const Series means = BlockMeans(values, blocks);
  return PairedDifference(Series(means.size(), 0.0), means, kProbeConfidence).interval;
}

class Judge {
 public:
  Judge(std::span<const double> server, std::span<const ProbeRun> runs) : server_(server), runs_(runs) {
    out_.rows = static_cast<int64_t>(server.size());
    out_.block_rows = ProbeBlockTokens(out_.rows);
    out_.blocks = out_.rows / out_.block_rows;
  }

  ProbeJudgement Run(std::span<const double> repeat) {
    out_.server_nll = -Mean(Series(server_.begin(), server_.end()));
    for (const ProbeRun& run : runs_) AddDistance(run);
    const ProbeRun& unquantized = Of(ProbeCache::kUnquantized);
    out_.own_noise = Mean(SquaredDistance(unquantized.log_probs, repeat));
    const size_t nearest = static_cast<size_t>(
        std::ranges::min_element(out_.distances, {}, &ProbeDistance::mean_square) - out_.distances.begin());
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (i != nearest) AddPair(runs_[nearest], runs_[i]);
    }
    out_.doubt = Doubt(nearest);
    if (out_.doubt == ProbeDoubt::kNone) out_.verdict = VerdictOf(runs_[nearest].cache);
    return std::move(out_);
  }

 private:
  const ProbeRun& Of(ProbeCache cache) const { return *std::ranges::find(runs_, cache, &ProbeRun::cache); }

  static ProbeVerdict VerdictOf(ProbeCache cache) {
    switch (cache) {
      case ProbeCache::kFileScales:
        return ProbeVerdict::kScalesLoaded;
      case ProbeCache::kUnitScales:
        return ProbeVerdict::kUnitScales;
      case ProbeCache::kUnquantized:
        break;
    }
    return ProbeVerdict::kNotQuantized;
  }

  void AddDistance(const ProbeRun& run) {
    const Series squares = SquaredDistance(server_, run.log_probs);
    ProbeDistance distance;
    distance.cache = run.cache;
    distance.nll = -Mean(run.log_probs);
    distance.mean_square = Mean(squares);
    distance.interval = IntervalOfMean(squares, out_.blocks);
    distance.interval.low = std::max(distance.interval.low, 0.0);
    out_.distances.push_back(distance);
  }

  void AddPair(const ProbeRun& nearer, const ProbeRun& farther) {
    ProbePair pair;
    pair.nearer = nearer.cache;
    pair.farther = farther.cache;
    const Series separation = SquaredDistance(farther.log_probs, nearer.log_probs);
    pair.separation = Mean(separation);
    const Series near_squares = SquaredDistance(server_, nearer.log_probs);
    const Series far_squares = SquaredDistance(server_, farther.log_probs);
    const MeanDifference gap =
        PairedDifference(BlockMeans(near_squares, out_.blocks), BlockMeans(far_squares, out_.blocks), kProbeConfidence);
    pair.gap = Mean(far_squares) - Mean(near_squares);
    pair.gap_interval = gap.interval;
    AddShare(Products(server_, farther.log_probs, nearer.log_probs), separation, pair);
    if (pair.gap_interval.low > 0) out_.ruled_out.push_back(farther.cache);
    out_.pairs.push_back(pair);
  }

  // A ratio of two means; its interval from the blocks' residuals x - share y.
  void AddShare(const Series& products, const Series& separation, ProbePair& pair) const {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    pair.share = nan;
    pair.share_interval = {nan, nan};
    if (pair.separation == 0) return;
    pair.share = Mean(products) / pair.separation;
    Series residuals(products.size());
    for (size_t i = 0; i < products.size(); ++i) residuals[i] = products[i] - pair.share * separation[i];
    const Interval around = IntervalOfMean(residuals, out_.blocks);
    pair.share_interval = {pair.share + around.low / pair.separation, pair.share + around.high / pair.separation};
  }

  ProbeDoubt Doubt(size_t nearest) const {
    double widest = 0;
    for (const ProbePair& pair : out_.pairs) widest = std::max(widest, pair.separation);
    const double distance = out_.distances[nearest].mean_square;
    if (distance > kOtherModelSquare && distance > widest) return ProbeDoubt::kOtherModel;
    for (const ProbePair& pair : out_.pairs) {
      const bool scales_alone = pair.nearer != ProbeCache::kUnquantized && pair.farther != ProbeCache::kUnquantized;
      if (pair.separation == 0 && scales_alone) return ProbeDoubt::kSameRuns;
    }
    for (const ProbePair& pair : out_.pairs) {
      if (pair.gap_interval.low <= 0) return ProbeDoubt::kNoise;
    }
    for (const ProbePair& pair : out_.pairs) {
      if (std::abs(pair.share) > kMostShare) return ProbeDoubt::kNoneFits;
      const bool unquantized = pair.nearer == ProbeCache::kUnquantized;
      if (unquantized && distance >= pair.separation) return ProbeDoubt::kNoneFits;
    }
    return ProbeDoubt::kNone;
  }

  const std::span<const double> server_;
  const std::span<const ProbeRun> runs_;
  ProbeJudgement out_;
};

}  // namespace

const char* NameOf(ProbeCache cache) {
  switch (cache) {
    case ProbeCache::kFileScales:
      return "file";
    case ProbeCache::kUnitScales:
      return "one";
    case ProbeCache::kUnquantized:
      break;
  }
  return "bf16";
}

const char* NameOf(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::kScalesLoaded:
      return "scales_loaded";
    case ProbeVerdict::kUnitScales:
      return "runs_at_one";
    case ProbeVerdict::kNotQuantized:
      return "not_quantized";
    case ProbeVerdict::kCannotTell:
      break;
  }
  return "cannot_tell";
}

const char* NameOf(ProbeDoubt doubt) {
  switch (doubt) {
    case ProbeDoubt::kSameRuns:
      return "same_runs";
    case ProbeDoubt::kNoise:
      return "noise";
    case ProbeDoubt::kNoneFits:
      return "none_fits";
    case ProbeDoubt::kOtherModel:
      return "other_model";
    case ProbeDoubt::kNone:
      break;
  }
  return "none";
}

int64_t ProbeBlockTokens(int64_t tokens) { return std::clamp(tokens / kWantedBlocks, kShortestBlock, kLongestBlock); }

ProbeJudgement JudgeProbe(std::span<const double> server, std::span<const ProbeRun> runs,
                          std::span<const double> repeat) {
  HAYPILE_CHECK(static_cast<int64_t>(server.size()) >= kLeastProbeRows && repeat.size() == server.size());
  for (const ProbeRun& run : runs) HAYPILE_CHECK_EQ(run.log_probs.size(), server.size());
  for (const ProbeCache needed : {ProbeCache::kUnquantized, ProbeCache::kUnitScales}) {
    HAYPILE_CHECK(std::ranges::find(runs, needed, &ProbeRun::cache) != runs.end());
  }
  return Judge(server, runs).Run(repeat);
}

}  // namespace haypile
