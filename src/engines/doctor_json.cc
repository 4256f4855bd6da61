#include "base/json.h"
#include "engines/doctor.h"

namespace haypile {
namespace {

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <typename T>
Json Value(const std::optional<Said<T>>& said) {
  if (!said) return nullptr;
  return Json{{"value", said->value}, {"line", said->line.number}};
}

Json PoolsJson(const LogRecord& log) {
  Json pools = Json::array();
  for (const PoolLine& pool : log.pools) {
    pools.push_back({{"what", pool.what},
                     {"line", pool.line.number},
                     {"tokens", OrNull(pool.tokens)},
                     {"blocks", OrNull(pool.blocks)},
                     {"tokens_per_block", OrNull(pool.tokens_per_block)},
                     {"max_model_len", OrNull(pool.max_model_len)},
                     {"concurrency", OrNull(pool.concurrency)},
                     {"bytes", OrNull(pool.bytes)},
                     {"dtype", pool.dtype}});
  }
  return pools;
}

Json LogJson(const LogRecord& log) {
  Json used = Json::array(), backends = Json::array(), errors = Json::array();
  for (const auto& dtype : log.kv_dtype_used) used.push_back({{"value", dtype.value}, {"line", dtype.line.number}});
  for (const BackendLine& backend : log.backends) {
    backends.push_back({{"value", backend.backend}, {"line", backend.line.number}});
  }
  for (const ErrorLine& error : log.errors) {
    errors.push_back({{"type", error.type}, {"message", error.message}, {"line", error.line.number}});
  }
  return {
      {"engine", LogEngineName(log.engine)},
      {"version", Value(log.version)},
      {"model", Value(log.model)},
      {"kv_cache_dtype", {{"requested", Value(log.kv_dtype_requested)}, {"used", used}, {"judged", CacheDtype(log)}}},
      {"attention_backend", {{"requested", Value(log.backend_requested)}, {"used", backends}}},
      {"max_model_len", Value(log.max_model_len)},
      {"tensor_parallel", Value(log.tensor_parallel)},
      {"graphs", Value(log.graphs)},
      {"speculative", Value(log.speculative)},
      {"scale_lines", log.scales.size()},
      {"pools", PoolsJson(log)},
      {"errors", errors},
      {"lines", log.lines},
      {"recognised", log.recognised},
      {"unrecognised_about_cache", log.unrecognised_about_cache}};
}

Json MetricsJson(const PoolMetrics& metrics) {
  const auto latency = [](const std::optional<LatencyMetric>& value) -> Json {
    if (!value) return nullptr;
    return {{"count", value->count}, {"mean_s", value->mean_s}, {"p95_at_most_s", OrNull(value->p95_at_most_s)}};
  };
  return {{"engine", metrics.engine},
          {"usage", OrNull(metrics.usage)},
          {"running", OrNull(metrics.running)},
          {"waiting", OrNull(metrics.waiting)},
          {"preemptions", OrNull(metrics.preemptions)},
          {"prefix_hit_rate", OrNull(metrics.prefix_hit_rate)},
          {"time_to_first_token", latency(metrics.time_to_first_token)},
          {"time_per_token", latency(metrics.time_per_token)},
          {"pool_tokens", OrNull(metrics.pool_tokens)},
          {"cache_dtype", metrics.cache_dtype}};
}

}  // namespace

Json DoctorJson(const std::string& tool_version, const DoctorInput& input, const PoolMetrics* metrics,
                const Findings& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    Json evidence = Json::array();
    for (const LogLine& line : finding.evidence) {
      evidence.push_back({{"line", line.number > 0 ? Json(line.number) : Json(nullptr)}, {"text", line.text}});
    }
    list.push_back({{"id", finding.id},
                    {"severity", SeverityName(finding.severity)},
                    {"what", finding.what},
                    {"evidence", evidence},
                    {"why", finding.why},
                    {"type", finding.type},
                    {"check", finding.check}});
  }
  return {{"schema", "haypile.doctor/1"},
          {"tool_version", tool_version},
          {"log", input.log != nullptr ? LogJson(*input.log) : Json(nullptr)},
          {"metrics", metrics != nullptr ? MetricsJson(*metrics) : Json(nullptr)},
          {"findings", list}};
}

}  // namespace haypile
