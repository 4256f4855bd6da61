#include "probe/probe_judgement.h"

#include <algorithm>
#include <cmath>
#include <iterator>
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

// The run of the same scales and a store that rounds.
ProbeCache ScalesOf(ProbeCache cache) {
  switch (cache) {
    case ProbeCache::kFileScalesCut:
      return ProbeCache::kFileScales;
    case ProbeCache::kUnitScalesCut:
      return ProbeCache::kUnitScales;
    case ProbeCache::kUnquantized:
    case ProbeCache::kFileScales:
    case ProbeCache::kUnitScales:
      break;
  }
  return cache;
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
    SetNearest();
    for (const ProbeRun& run : runs_) {
      if (run.cache != ProbeCache::kUnquantized) AddPair(unquantized, run);
    }
    for (const ProbeRun& run : runs_) {
      if (IsOther(run.cache)) AddPair(Of(out_.nearest), run);
    }
    out_.unexplained = SquareOf(out_.nearest) > kExplained * Step(out_.nearest).separation;
    RuleOut();
    Decide();
    return std::move(out_);
  }

 private:
  const ProbeRun& Of(ProbeCache cache) const { return *std::ranges::find(runs_, cache, &ProbeRun::cache); }

  // A quantized run of other scales than the nearest.
  bool IsOther(ProbeCache cache) const {
    return cache != ProbeCache::kUnquantized && ScalesOf(cache) != ScalesOf(out_.nearest);
  }
  const ProbePair& Step(ProbeCache to) const { return out_.Pair(ProbeCache::kUnquantized, to); }
  double SquareOf(ProbeCache cache) const {
    return std::ranges::find(out_.distances, cache, &ProbeDistance::cache)->mean_square;
  }

  void SetNearest() {
    double least = std::numeric_limits<double>::infinity();
    for (const ProbeDistance& distance : out_.distances) {
      if (distance.cache == ProbeCache::kUnquantized || distance.mean_square >= least) continue;
      least = distance.mean_square;
      out_.nearest = distance.cache;
    }
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

  void AddPair(const ProbeRun& from, const ProbeRun& to) {
    ProbePair pair;
    pair.from = from.cache;
    pair.to = to.cache;
    const Series separation = SquaredDistance(to.log_probs, from.log_probs);
    pair.separation = Mean(separation);
    const Series from_squares = SquaredDistance(server_, from.log_probs);
    const Series to_squares = SquaredDistance(server_, to.log_probs);
    pair.gap = Mean(to_squares) - Mean(from_squares);
    pair.gap_interval =
        PairedDifference(BlockMeans(from_squares, out_.blocks), BlockMeans(to_squares, out_.blocks), kProbeConfidence)
            .interval;
    AddShare(Products(server_, to.log_probs, from.log_probs), separation, pair);
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

  static bool GoesAlong(const ProbePair& step) { return step.share_interval.low > 0; }
  static bool StaysAway(const ProbePair& step) { return step.share_interval.high < kLeastShare; }

  void RuleOut() {
    const bool quantized = GoesAlong(Step(out_.nearest));
    if (quantized) out_.ruled_out.push_back(ProbeCache::kUnquantized);
    for (const ProbeRun& run : runs_) {
      const bool own_scales = quantized && !IsOther(run.cache);
      if (run.cache == ProbeCache::kUnquantized || own_scales) continue;
      const bool farther = IsOther(run.cache) && out_.Pair(out_.nearest, run.cache).gap_interval.low > 0;
      if (StaysAway(Step(run.cache)) || (quantized && farther)) out_.ruled_out.push_back(run.cache);
    }
  }

  void Decide() {
    const ProbePair& step = Step(out_.nearest);
    const double square = std::min(SquareOf(out_.nearest), SquareOf(ProbeCache::kUnquantized));
    if (square > kOtherModelSquare && square > step.separation) {
      out_.doubt = ProbeDoubt::kOtherModel;
      return;
    }
    const bool away = std::ranges::all_of(runs_, [this](const ProbeRun& run) {
      return run.cache == ProbeCache::kUnquantized || StaysAway(Step(run.cache));
    });
    if (away) {
      const bool near = SquareOf(ProbeCache::kUnquantized) < kMostUnquantized * step.separation;
      out_.verdict = near ? ProbeVerdict::kNotQuantized : ProbeVerdict::kCannotTell;
      out_.doubt = near ? ProbeDoubt::kNone : ProbeDoubt::kNoneFits;
      return;
    }
    out_.doubt = DoubtOfScales(step);
    if (out_.doubt != ProbeDoubt::kNone) return;
    const bool file = ScalesOf(out_.nearest) == ProbeCache::kFileScales;
    out_.verdict = file ? ProbeVerdict::kScalesLoaded : ProbeVerdict::kUnitScales;
  }

  // How far the server goes along with another run's step, beyond what that step has in common with the nearest's.
  double ShareBeyondNearest(ProbeCache other) const {
    const ProbePair &step = Step(out_.nearest), &other_step = Step(other);
    const double between = out_.Pair(out_.nearest, other).separation;
    const double common = (step.separation + other_step.separation - between) / 2;
    return other_step.share - step.share * common / other_step.separation;
  }

  ProbeDoubt DoubtOfScales(const ProbePair& step) const {
    for (const ProbeRun& run : runs_) {
      if (IsOther(run.cache) && out_.Pair(out_.nearest, run.cache).separation == 0) return ProbeDoubt::kSameRuns;
    }
    if (!GoesAlong(step)) return ProbeDoubt::kNoise;
    for (const ProbeRun& run : runs_) {
      if (IsOther(run.cache) && out_.Pair(out_.nearest, run.cache).gap_interval.low <= 0) return ProbeDoubt::kNoise;
    }
    if (step.share < kLeastShare || SquareOf(out_.nearest) > kMostUnexplained * step.separation) {
      return ProbeDoubt::kNoneFits;
    }
    for (const ProbeRun& run : runs_) {
      if (IsOther(run.cache) && ShareBeyondNearest(run.cache) > step.share / 2) return ProbeDoubt::kNoneFits;
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
    case ProbeCache::kFileScalesCut:
      return "file_cut";
    case ProbeCache::kUnitScalesCut:
      return "one_cut";
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

const ProbePair& ProbeJudgement::Pair(ProbeCache from, ProbeCache to) const {
  const auto pair = std::ranges::find_if(pairs, [&](const ProbePair& p) { return p.from == from && p.to == to; });
  HAYPILE_CHECK(pair != pairs.end());
  return *pair;
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
