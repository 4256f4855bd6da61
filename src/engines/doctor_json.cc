#include "base/json.h"
#include "engines/doctor_report.h"

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

Json LatencyJson(const std::optional<LatencyMetric>& latency) {
  if (!latency) return nullptr;
  Json quantiles = Json::array();
  for (const LatencyQuantile& quantile : latency->quantiles) {
    quantiles.push_back({{"quantile", quantile.quantile},
                         {"above_s", quantile.above_s},
                         {"at_most_s", OrNull(quantile.at_most_s)},
                         {"estimate_s", OrNull(quantile.estimate_s)}});
  }
  return {{"count", latency->count},
          {"mean_s", latency->mean_s},
          {"p95_at_most_s", OrNull(latency->p95_at_most_s)},
          {"quantiles", quantiles}};
}

Json WindowJson(const MetricsWindow& window) {
  const auto rate = [&window](const std::optional<double>& growth) -> Json {
    return growth && window.seconds > 0 ? Json(*growth / window.seconds) : Json(nullptr);
  };
  return {{"seconds", window.seconds},
          {"looks", window.looks},
          {"failed_looks", window.failed_looks},
          {"counter_resets", window.resets},
          {"stopped_early", window.stopped_early},
          {"usage_mean", OrNull(window.usage_mean)},
          {"usage_most", OrNull(window.usage_most)},
          {"looks_nearly_full", window.looks_nearly_full},
          {"running_mean", OrNull(window.running_mean)},
          {"running_most", OrNull(window.running_most)},
          {"waiting_mean", OrNull(window.waiting_mean)},
          {"waiting_most", OrNull(window.waiting_most)},
          {"preemptions", OrNull(window.growth.preemptions)},
          {"preemptions_per_s", rate(window.growth.preemptions)},
          {"generation_tokens_per_s", rate(window.growth.generation_tokens)},
          {"prompt_tokens_per_s", rate(window.growth.prompt_tokens)},
          {"prefix_hit_rate", OrNull(window.growth.prefix_hit_rate)},
          {"time_to_first_token", LatencyJson(window.growth.time_to_first_token)},
          {"time_per_token", LatencyJson(window.growth.time_per_token)},
          {"queue_time", LatencyJson(window.growth.queue_time)}};
}

// The newest look; `window` has what changed while it was watched.
Json MetricsJson(const MetricsWindow& window) {
  const PoolMetrics& metrics = window.last;
  return {{"engine", metrics.engine},
          {"usage", OrNull(metrics.usage)},
          {"running", OrNull(metrics.running)},
          {"waiting", OrNull(metrics.waiting)},
          {"preemptions", OrNull(metrics.preemptions)},
          {"prefix_hit_rate", OrNull(metrics.prefix_hit_rate)},
          {"time_to_first_token", LatencyJson(metrics.time_to_first_token)},
          {"time_per_token", LatencyJson(metrics.time_per_token)},
          {"pool_tokens", OrNull(metrics.pool_tokens)},
          {"cache_dtype", metrics.cache_dtype},
          {"window", window.looks > 1 ? WindowJson(window) : Json(nullptr)}};
}

Json LaunchJson(const LaunchInput& input, const LaunchPrediction& prediction) {
  return {{"engine", input.engine},
          {"engine_version", PlannedEngine(input.engine) ? Json(LaunchVersionText(input)) : Json(nullptr)},
          {"engine_version_assumed", !input.version.has_value()},
          {"device", DeviceText(input.device, input.gpu)},
          {"compute_capability", input.gpu && input.gpu->sm > 0 ? Json(input.gpu->sm / 10.0) : Json(nullptr)},
          {"model", input.model.name},
          {"kv_cache_dtype", input.kv_cache_dtype},
          {"attention_backend",
           {{"requested", input.backend.empty() ? Json(nullptr) : Json(input.backend)},
            {"expected", prediction.backend.empty() ? Json(nullptr) : Json(prediction.backend)}}},
          {"verdict", LaunchVerdictName(prediction.verdict)},
          {"storage", prediction.storage},
          {"arithmetic", prediction.arithmetic}};
}

Json FindingsJson(const Findings& findings) {
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
  return list;
}

Json ChecklistJson(const std::vector<CheckStep>& steps) {
  if (steps.empty()) return nullptr;
  Json list = Json::array();
  for (const CheckStep& step : steps) {
    list.push_back({{"id", step.id},
                    {"question", step.question},
                    {"state", CheckStateName(step.state)},
                    {"answer", step.answer},
                    {"next", step.next}});
  }
  return list;
}

}  // namespace

Json DoctorJson(const std::string& tool_version, const DoctorReport& report) {
  const DoctorInput& input = report.input;
  const bool launch = input.launch != nullptr && report.launch_input != nullptr;
  return {{"schema", "haypile.doctor/1"},
          {"tool_version", tool_version},
          {"launch", launch ? LaunchJson(*report.launch_input, *input.launch) : Json(nullptr)},
          {"log", input.log != nullptr ? LogJson(*input.log) : Json(nullptr)},
          {"metrics", input.metrics != nullptr ? MetricsJson(*input.metrics) : Json(nullptr)},
          {"probe", nullptr},
          {"findings", FindingsJson(report.findings)},
          {"checklist", ChecklistJson(report.checklist)}};
}

}  // namespace haypile
