#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/session.h"
#include "report/compare_result.h"
#include "spec/kv_dtype.h"

namespace haypile {

// What the user asked of `haypile compare`.
struct CompareRequest {
  std::string model;            // as named on the command line
  std::vector<KvDtype> dtypes;  // the first is the baseline
  int64_t kv_cache_memory_bytes = int64_t{512} << 20;
  int64_t max_model_len = 0;  // 0: the effort's default
  std::vector<int64_t> streams = {1, 4, 8};
  CompareEffort effort = CompareEffort::kStandard;
  std::string skip_layers;  // --kv-cache-dtype-skip-layers as given
  std::string scales_path;  // --kv-scales; empty: every scale 1.0
  int page_tokens = 16;
};

// How much is measured at each effort; the one place for these numbers.
struct EffortPlan {
  int64_t default_max_model_len;  // capped by the model's own limit
  int64_t text_tokens;            // of each text; 0: all, in segments of max_model_len
  int prefill_samples;            // of the short prompt
  int long_prefill_samples;
  int decode_samples;
  int decode_steps_per_sample;
  std::vector<int64_t> recall_context_tokens;  // those that fit max_model_len are asked
  int recall_seeds;
};
const EffortPlan& PlanOf(CompareEffort effort);

// "bf16,fp8,q8_0/nvfp4_4over6": kInvalidArgument for an unknown, empty or repeated entry.
Result<std::vector<KvDtype>> ParseDtypeList(const std::string& text);
// "512MiB", "1.5GiB", "2GB", "1048576": bytes. kInvalidArgument for anything else, zero or more than 2^60.
Result<int64_t> ParseByteCount(const std::string& text, const std::string& flag);
// "1,4,8": positive numbers up to 256.
Result<std::vector<int64_t>> ParseStreams(const std::string& text);

// Fills max_model_len and checks it against the model's own limit (kOutOfBudget beyond it).
Status ResolveMaxModelLen(const ModelSpec& spec, CompareRequest& request);

}  // namespace haypile
