#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evaluate/statistics.h"

namespace haypile {

// What a cache of our own engine may be like the server's: the model's dtype, the server's dtype at the checkpoint's
// scales, the same at 1.0; and these two with a store that cuts towards zero instead of rounding to nearest.
enum class ProbeCache { kUnquantized, kFileScales, kUnitScales, kFileScalesCut, kUnitScalesCut };
const char* NameOf(ProbeCache cache);  // "bf16", "file", "one", "file_cut", "one_cut"

// Natural log-probabilities of the text's tokens, from the second one on, under one cache.
struct ProbeRun {
  ProbeCache cache = ProbeCache::kUnquantized;
  std::vector<double> log_probs;
};

inline constexpr double kProbeConfidence = 0.99;
// Neighbouring tokens share their context, so errors are computed over blocks of them: of at most 64 (as
// DivergenceAccumulator), and shorter ones where that leaves fewer than 16 blocks.
int64_t ProbeBlockTokens(int64_t tokens);
inline constexpr int64_t kLeastProbeRows = 127;  // 8 blocks of 15

// How far the server is from one run: the mean over tokens of (s - h)^2, in square nats.
struct ProbeDistance {
  ProbeCache cache = ProbeCache::kUnquantized;
  double nll = 0;          // of the run, nats per token
  double mean_square = 0;  // with its interval
  Interval interval;
};

// From one run to another, token by token.
struct ProbePair {
  ProbeCache from = ProbeCache::kUnquantized, to = ProbeCache::kUnquantized;
  double separation = 0;  // mean of (to - from)^2: how much the two caches differ on this text
  double gap = 0;         // mean of (s - to)^2 - (s - from)^2: how much farther `to` is from the server; paired
  Interval gap_interval;
  // How far the server goes along with the step from one to the other: mean (s - from)(to - from) / separation. 0: not
  // at all, whatever noise has nothing to do with the step; 1: all the way. gap = separation (1 - 2 share). NaN when
  // the two runs are the same.
  double share = 0;
  Interval share_interval;
};

enum class ProbeVerdict { kScalesLoaded, kUnitScales, kNotQuantized, kCannotTell };
const char* NameOf(ProbeVerdict verdict);  // "scales_loaded", "runs_at_one", "not_quantized", "cannot_tell"

enum class ProbeDoubt {
  kNone,
  kSameRuns,    // the file's scales give the same numbers as 1.0
  kNoise,       // two runs differ by less than the noise between the server and ours
  kNoneFits,    // the server differs from every run in ways that a run's own noise does not
  kOtherModel,  // the server is so far from every run that it does not seem to run this checkpoint
};
const char* NameOf(ProbeDoubt doubt);  // "none", "same_runs", "noise", "none_fits", "other_model"

struct ProbeJudgement {
  ProbeVerdict verdict = ProbeVerdict::kCannotTell;
  ProbeDoubt doubt = ProbeDoubt::kNone;
  int64_t rows = 0, block_rows = 0, blocks = 0;
  double server_nll = 0;
  double own_noise = 0;                  // mean square between two runs of ours that differ in the order of sums alone
  std::vector<ProbeDistance> distances;  // in the runs' order
  ProbeCache nearest = ProbeCache::kUnitScales;  // of the quantized runs
  // From the unquantized run to each quantized one, then from the nearest quantized one to those of other scales.
  std::vector<ProbePair> pairs;
  std::vector<ProbeCache> ruled_out;  // beyond doubt; also without a verdict
  // The server is farther from the nearest quantized run than kExplained times the square of its step: something else
  // than scales tells the two apart.
  bool unexplained = false;

  const ProbePair& Pair(ProbeCache from, ProbeCache to) const;  // one of `pairs`
};

// `runs` holds the unquantized one and the one at 1.0, the one at the file's scales where there are any, and cut ones
// or not; `repeat` is the unquantized run once more in other chunks. All of the server's length, at least
// kLeastProbeRows.
//
// Quantizing moves a log-probability one way or the other at each token, by rounding. A server with the same scales
// rounds the same values mostly alike, and so goes along with that run's step away from the unquantized one: by a share
// of 1 if it computes as we do, less if its activations are rounded differently, and not at all (0) with other scales
// or none.
// All at kProbeConfidence, the nearest quantized run is the verdict when (1) the server goes along with its step, by
// kLeastShare or more and an interval above 0; (2) each run of other scales is farther, by a paired interval above 0,
// and the server goes along with its step, beyond what the two steps have in common, at most half as much; and (3) the
// server is within kMostUnexplained times the square of the step. Unquantized is the verdict when the server goes along
// with no step by as much as kLeastShare, and is nearer than kMostUnquantized times the square of the step, since other
// scales than those compared move it as far in a direction of their own. All else cannot be told.
ProbeJudgement JudgeProbe(std::span<const double> server, std::span<const ProbeRun> runs,
                          std::span<const double> repeat);
inline constexpr double kLeastShare = 0.25, kMostUnquantized = 0.5, kExplained = 2, kMostUnexplained = 3;

}  // namespace haypile
