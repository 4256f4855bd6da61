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

struct MethodScales {
  ScaleMethod method = ScaleMethod::kAmax;
  KvScales scales;
};

struct OutputMeasurement {
  KvFormat format = KvFormat::kFp8E4m3;
  ScaleMethod chosen = ScaleMethod::kAmax;  // the one of `methods` that single layers are run with
  std::span<const MethodScales> methods;
  int layers = 0;  // of the model, or 0: only the whole cache
  std::span<const int32_t> tokens;
};

struct OutputErrors {
  OutputCheck whole;
  std::vector<double> k_mean_kl, v_mean_kl;  // [layers]: K, or V, of this layer alone in the format
};

// Token passes that MeasureOutputErrors takes; 0 for fewer than 2 tokens.
int64_t OutputErrorPasses(int layers, size_t tokens);

// Runs the tokens with the whole cache in the format at scale 1.0 and with each method's scales, then with K and V of
// each layer alone, and gives the mean KL divergence of the next-token distribution from the bf16 cache's. Finished
// parts are kept in `state`. `on_tokens` hears how many token passes are done.
Result<OutputErrors> MeasureOutputErrors(const Session& session, const OutputMeasurement& wanted, StateStore& state,
                                         const std::function<void(int64_t)>& on_tokens);

}  // namespace haypile
