#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <map>

#include "engines/metrics_text.h"

namespace haypile {
namespace {

using Samples = std::vector<MetricSample>;
using NameList = std::initializer_list<std::string_view>;

bool Is(const MetricSample& sample, NameList names) {
  return std::isfinite(sample.value) && std::find(names.begin(), names.end(), sample.name) != names.end();
}

// Over all label sets of whichever of the names is there.
std::optional<double> Sum(const Samples& samples, NameList names) {
  std::optional<double> sum;
  for (const MetricSample& sample : samples) {
    if (Is(sample, names)) sum = sum.value_or(0.0) + sample.value;
  }
  return sum;
}

std::optional<double> Largest(const Samples& samples, NameList names) {
  std::optional<double> largest;
  for (const MetricSample& sample : samples) {
    if (Is(sample, names)) largest = std::max(largest.value_or(sample.value), sample.value);
  }
  return largest;
}

std::optional<double> SumWhere(const Samples& samples, std::string_view name, std::string_view label,
                               std::string_view value) {
  std::optional<double> sum;
  for (const MetricSample& sample : samples) {
    const std::string* found = sample.Label(label);
    if (Is(sample, {name}) && found != nullptr && *found == value) sum = sum.value_or(0.0) + sample.value;
  }
  return sum;
}

using Buckets = std::map<double, double>;  // upper bound -> samples at or below it

Buckets BucketsOf(const Samples& samples, const std::string& name) {
  Buckets buckets;
  for (const MetricSample& sample : samples) {
    const std::string* bound = sample.Label("le");
    if (bound == nullptr || !Is(sample, {name})) continue;
    buckets[*bound == "+Inf" ? std::numeric_limits<double>::infinity() : std::strtod(bound->c_str(), nullptr)] +=
        sample.value;
  }
  return buckets;
}

LatencyQuantile QuantileOf(const Buckets& buckets, double quantile, double count) {
  LatencyQuantile result{quantile, 0.0, std::nullopt, std::nullopt};
  const double wanted = quantile * count;
  double below = 0.0;
  for (const auto& [bound, at_or_below] : buckets) {
    if (at_or_below < wanted) {
      below = at_or_below;
      if (std::isfinite(bound)) result.above_s = bound;
      continue;
    }
    if (!std::isfinite(bound)) break;
    result.at_most_s = bound;
    const double inside = at_or_below - below;
    result.estimate_s = result.above_s + (bound - result.above_s) * (inside > 0 ? (wanted - below) / inside : 1.0);
    break;
  }
  return result;
}

std::optional<LatencyMetric> Latency(const Samples& samples, NameList names) {
  for (const std::string_view name : names) {
    const std::string base(name);
    const auto count = Sum(samples, {base + "_count"});
    const auto sum = Sum(samples, {base + "_sum"});
    if (!count || !sum || *count <= 0) continue;
    LatencyMetric latency{*count, *sum / *count, std::nullopt, {}};
    const Buckets buckets = BucketsOf(samples, base + "_bucket");
    if (!buckets.empty()) {
      for (const double quantile : kLatencyQuantiles)
        latency.quantiles.push_back(QuantileOf(buckets, quantile, *count));
      latency.p95_at_most_s = QuantileOf(buckets, 0.95, *count).at_most_s;
    }
    return latency;
  }
  return std::nullopt;
}

std::string EngineOf(const Samples& samples) {
  for (const MetricSample& sample : samples) {
    if (sample.name.starts_with("vllm:")) return "vllm";
    if (sample.name.starts_with("sglang:") || sample.name.starts_with("sglang_")) return "sglang";
    if (sample.name.starts_with("trtllm_")) return "trtllm";
    if (sample.name.starts_with("llamacpp:")) return "llamacpp";
  }
  return "";
}

// vllm:cache_config_info is a gauge of 1 whose labels are the cache's settings.
void ReadCacheConfig(const Samples& samples, PoolMetrics& metrics) {
  const auto number = [](const MetricSample& sample, std::string_view label) -> std::optional<double> {
    const std::string* text = sample.Label(label);
    if (text == nullptr || text->empty()) return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(text->c_str(), &end);
    if (end == text->c_str() || !std::isfinite(value)) return std::nullopt;
    return value;
  };
  for (const MetricSample& sample : samples) {
    if (sample.name != "vllm:cache_config_info") continue;
    if (const std::string* dtype = sample.Label("cache_dtype")) metrics.cache_dtype = *dtype;
    metrics.pool_blocks = number(sample, "num_gpu_blocks");
    metrics.block_tokens = number(sample, "block_size");
    metrics.pool_tokens = number(sample, "kv_cache_size_tokens");
    metrics.pool_concurrency = number(sample, "kv_cache_max_concurrency");
    return;
  }
}

}  // namespace

PoolMetrics PoolMetricsOf(const Samples& samples) {
  PoolMetrics metrics;
  metrics.engine = EngineOf(samples);
  metrics.usage =
      Largest(samples, {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage",
                        "sglang:full_token_usage", "trtllm_kv_cache_utilization", "llamacpp:kv_cache_usage_ratio"});
  metrics.running = Sum(samples, {"vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running",
                                  "llamacpp:requests_processing"});
  metrics.waiting = Sum(samples, {"vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting",
                                  "llamacpp:requests_deferred"});
  metrics.waiting_for_capacity = SumWhere(samples, "vllm:num_requests_waiting_by_reason", "reason", "capacity");
  metrics.preemptions = Sum(samples, {"vllm:num_preemptions_total", "vllm:num_preemptions",
                                      "sglang:num_retracted_reqs_total", "sglang:num_retracted_reqs"});
  metrics.prefix_queries = Sum(
      samples, {"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total", "vllm:prefix_cache_queries"});
  metrics.prefix_hits =
      Sum(samples, {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits"});
  if (metrics.prefix_queries && metrics.prefix_hits && *metrics.prefix_queries > 0) {
    metrics.prefix_hit_rate = *metrics.prefix_hits / *metrics.prefix_queries;
  } else {
    metrics.prefix_hit_rate =
        Largest(samples, {"sglang:cache_hit_rate", "trtllm_kv_cache_hit_rate", "vllm:gpu_prefix_cache_hit_rate"});
  }
  metrics.prompt_tokens =
      Sum(samples, {"vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total"});
  metrics.generation_tokens = Sum(
      samples, {"vllm:generation_tokens_total", "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total"});
  metrics.computed_prompt_tokens = Sum(samples, {"vllm:request_prefill_kv_computed_tokens_sum"});
  metrics.time_to_first_token =
      Latency(samples, {"vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"});
  metrics.time_per_token =
      Latency(samples, {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
                        "vllm:request_time_per_output_token_seconds", "sglang:inter_token_latency_seconds"});
  metrics.queue_time = Latency(samples, {"vllm:request_queue_time_seconds", "sglang:queue_time_seconds"});
  ReadCacheConfig(samples, metrics);
  const auto blocks = Sum(samples, {"trtllm_kv_cache_max_blocks"});
  const auto block_tokens = Largest(samples, {"trtllm_kv_cache_tokens_per_block"});
  if (blocks && block_tokens) {
    metrics.pool_blocks = blocks;
    metrics.block_tokens = block_tokens;
    metrics.pool_tokens = *blocks * *block_tokens;
  }
  if (!metrics.pool_tokens) metrics.pool_tokens = Largest(samples, {"sglang:max_total_num_tokens"});
  return metrics;
}

}  // namespace haypile
