#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engines/http_client.h"

namespace haypile {

// One sample of the Prometheus text format: name{label="value",...} number [timestamp].
struct MetricSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0.0;  // may be infinite or NaN, as the format allows

  const std::string* Label(std::string_view label) const;
};

inline constexpr size_t kMaxMetricSamples = 1'000'000;
inline constexpr uint64_t kMaxMetricsBytes = uint64_t{64} << 20;

// Comments are skipped. kMalformed names the first line that is no sample; also beyond kMaxMetricSamples, and when the
// text holds no sample at all.
Result<std::vector<MetricSample>> ParseMetricsText(std::string_view text);

// A quantile out of a histogram: inside the bucket (above_s, at_most_s], and where it would lie if the bucket's
// samples were spread evenly. Beyond the last finite bucket nothing but above_s is known.
struct LatencyQuantile {
  double quantile = 0.0;
  double above_s = 0.0;
  std::optional<double> at_most_s;
  std::optional<double> estimate_s;
};

// A histogram's count and sum over all label sets.
struct LatencyMetric {
  double count = 0.0;
  double mean_s = 0.0;
  std::optional<double> p95_at_most_s;     // empty: beyond the last finite bucket
  std::vector<LatencyQuantile> quantiles;  // of kLatencyQuantiles; empty: the metrics hold no buckets
};
inline constexpr double kLatencyQuantiles[] = {0.5, 0.95, 0.99};

// What a serving engine's metrics say of its pool, under old and new names (vLLM V0 and V1, SGLang, TensorRT-LLM,
// llama.cpp). Gauges of several engines (ranks) are the worst one's; counters are summed. Empty: not exposed.
struct PoolMetrics {
  std::string engine;           // "vllm", "sglang", "trtllm", "llamacpp"; empty: none of them
  std::optional<double> usage;  // 0..1
  std::optional<double> running, waiting, waiting_for_capacity;
  std::optional<double> preemptions;
  std::optional<double> prefix_queries, prefix_hits;  // tokens
  std::optional<double> prefix_hit_rate;              // 0..1
  std::optional<double> prompt_tokens, generation_tokens, computed_prompt_tokens;
  std::optional<LatencyMetric> time_to_first_token, time_per_token, queue_time;
  std::optional<double> pool_tokens, pool_blocks, block_tokens, pool_concurrency;
  std::string cache_dtype;  // as asked
};
PoolMetrics PoolMetricsOf(const std::vector<MetricSample>& samples);

bool IsMetricsUrl(const std::string& url_or_path);  // http:// or https://, not a file

// The text of a metrics endpoint: http://HOST[:PORT][/PATH] (no path: /metrics), or a file. Plain HTTP only.
// kInvalidArgument, kNetwork (no answer, a status other than 200, beyond a limit), kNotFound, kIo.
Result<std::string> FetchMetrics(const std::string& url_or_path, const FetchLimits& limits = {});

}  // namespace haypile
