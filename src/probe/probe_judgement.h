#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evaluate/statistics.h"

namespace haypile {

// What a cache of our own engine may be like the server's: the model's dtype, the server's dtype at the checkpoint's
// scales, the same at 1.0.
enum class ProbeCache { kUnquantized, kFileScales, kUnitScales };
const char* NameOf(ProbeCache cache);  // "bf16", "file", "one"

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

// Two runs n (nearer to the server) and f (farther), token by token.
struct ProbePair {
  ProbeCache nearer = ProbeCache::kUnquantized, farther = ProbeCache::kUnquantized;
  double separation = 0;  // mean of (f - n)^2: how much the two caches differ on this text
  double gap = 0;         // mean of (s - f)^2 - (s - n)^2, >= 0; paired
  Interval gap_interval;
  // Where the server stands between the two: mean (s - n)(f - n) / separation. 0: at n but for what has nothing to do
  // with the difference of the two; 1: at f. gap = separation (1 - 2 share). NaN when the two runs are the same.
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
  std::vector<ProbePair> pairs;          // the nearest run with each other one
  std::vector<ProbeCache> ruled_out;     // farther than the nearest beyond doubt; also without a verdict
};

// `runs` holds the unquantized one and the one at 1.0, and the one at the file's scales where there are any; `repeat`
// is the unquantized run once more in other chunks. All of the server's length, at least kLeastProbeRows.
//
// The nearest run is the verdict when (1) every other one is farther, by a paired interval at kProbeConfidence that
// excludes 0, (2) the server is not displaced from it towards or away from another one by more than
// kMostShare of the way, and (3), for the unquantized run, which nothing but closeness speaks for, the server is nearer
// than quantizing moves our own engine. All else cannot be told.
ProbeJudgement JudgeProbe(std::span<const double> server, std::span<const ProbeRun> runs,
                          std::span<const double> repeat);
inline constexpr double kMostShare = 1.0 / 3;

}  // namespace haypile
