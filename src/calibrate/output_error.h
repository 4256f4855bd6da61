#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "calibrate/calibrate.h"
#include "compare/state_store.h"
#include "engine/session.h"

namespace haypile {

struct OutputErrors {
  OutputCheck whole;
  std::vector<double> k_mean_kl, v_mean_kl;  // [layer]: K, or V, of this layer alone in the format
};

// Token passes that MeasureOutputErrors takes; 0 for fewer than 2 tokens.
int64_t OutputErrorPasses(int layers, size_t tokens);

// Runs `tokens` with the whole cache in `format` at scale 1.0 and at `scales`, and with K and V of each layer alone,
// and gives the mean KL divergence of the next-token distribution from the bf16 cache's. Finished parts are kept in
// `state`. `on_tokens` hears how many token passes are done.
Result<OutputErrors> MeasureOutputErrors(const Session& session, KvFormat format, const KvScales& scales,
                                         std::span<const int32_t> tokens, StateStore& state,
                                         const std::function<void(int64_t)>& on_tokens);

}  // namespace haypile
