#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/lane.h"
#include "engine/session.h"
#include "evaluate/statistics.h"

namespace haypile {

// Speed at given depths, measured as llama-bench measures it (-d): `prompt_tokens` in one prefill, and `decode_tokens`
// one by one, both with `depth` tokens already cached. Tokens are random, the same for every dtype.
struct DepthSpeedOptions {
  std::vector<int64_t> depths = {0};
  int64_t prompt_tokens = 512;  // 0: no prefill is measured
  int64_t decode_tokens = 32;   // 0: no decode is measured
  int repeats = 3;

  std::vector<int64_t> Measured() const;  // `depths` in ascending order, each once
  // Context and pool that the measurement needs.
  int64_t LongestContext() const;
  int64_t PoolTokens(int page_tokens) const;
  // Tokens that all of it passes through the model, for progress.
  int64_t AllTokens() const;
};

// Tokens per second; `samples` in the order of measurement, empty where nothing was asked for.
struct SpeedSamples {
  std::vector<double> samples;
  MedianSpread Summary() const { return SummarizeSamples(samples); }
};

struct DepthSpeed {
  int64_t depth = 0;
  SpeedSamples prefill, decode;
};

// kInvalidArgument names the flag that cannot be: no depth, a negative one, or a context above `max_positions`.
Status CheckDepthSpeed(const DepthSpeedOptions& options, int64_t max_positions);

// Tokens passed through the model so far, and what is being done.
using DepthSpeedProgress = std::function<void(int64_t tokens, const std::string& what)>;

// In ascending order of depth. Copies of the cached context are made outside the clock; a pass before the first sample
// of each depth is not counted.
Result<std::vector<DepthSpeed>> MeasureDepthSpeed(const Session& session, const Lane& lane,
                                                  const DepthSpeedOptions& options,
                                                  const DepthSpeedProgress& on_progress);

}  // namespace haypile
