#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compare/lane.h"
#include "compare/request.h"
#include "report/compare_result.h"

namespace haypile {

// Times of every lane at the same points, lanes interleaved sample by sample so that machine drift falls on all alike.
struct SpeedOptions {
  const EffortPlan* plan = nullptr;
  int64_t max_model_len = 0;
  std::vector<int64_t> streams;
  double read_bandwidth_gb_per_s = 0;
};

struct SpeedResult {
  std::vector<CompareSpeed> lanes;  // one a lane
  int64_t pool_tokens = 0;          // in every lane's pool
};

// Tokens of the short prompt, which is also the depth of the many-stream measurements.
int64_t ShortPromptTokens(int64_t max_model_len);
// Token passes the measurement will take, for the progress estimate.
int64_t SpeedTokenPasses(const SpeedOptions& options, size_t lanes);

// `tokens` is real text of at least max_model_len tokens (repeated by the caller if need be).
Result<SpeedResult> MeasureSpeed(const Session& session, std::span<const Lane> lanes, std::span<const int32_t> tokens,
                                 const SpeedOptions& options, const std::function<void(int64_t)>& on_tokens);

}  // namespace haypile
