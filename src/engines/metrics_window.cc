#include "engines/metrics_window.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>

namespace haypile {
namespace {

// Counters and histograms end so; what vLLM V0 and some exporters call otherwise is named.
bool IsCounter(const std::string& name) {
  for (const std::string_view end : {"_total", "_count", "_sum", "_bucket"}) {
    if (name.ends_with(end)) return true;
  }
  constexpr std::array<std::string_view, 4> kOthers = {"vllm:num_preemptions", "vllm:prefix_cache_queries",
                                                       "vllm:prefix_cache_hits", "vllm:generation_tokens"};
  return std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
}

std::string KeyOf(const MetricSample& sample) {
  std::string key = sample.name;
  for (const auto& [name, value] : sample.labels) key += '\x1f' + name + '\x1e' + value;
  return key;
}

void Widen(std::optional<double>& most, double value) { most = std::max(most.value_or(value), value); }

std::optional<double> Mean(double sum, int looks) {
  return looks > 0 ? std::optional<double>(sum / looks) : std::nullopt;
}

}  // namespace

void MetricsWindowBuilder::AddGrowth(const std::vector<MetricSample>& samples) {
  Series now;
  bool reset = false;
  for (const MetricSample& sample : samples) {
    if (!IsCounter(sample.name) || !std::isfinite(sample.value)) continue;
    now.emplace(KeyOf(sample), sample);
  }
  for (const auto& [key, sample] : now) {
    const auto before = previous_.find(key);
    // A series that appears within the window began at zero: exporters create some at their first event.
    const double from = before == previous_.end() ? 0.0 : before->second.value;
    const bool fell = sample.value < from;
    reset = reset || fell;
    const auto [entry, added] = growth_.emplace(key, sample);
    if (added) entry->second.value = 0.0;
    entry->second.value += fell ? sample.value : sample.value - from;
  }
  window_.resets += reset;
  previous_ = std::move(now);
}

void MetricsWindowBuilder::Add(double at_s, const std::vector<MetricSample>& samples) {
  window_.last = PoolMetricsOf(samples);
  window_.ended_in_failure = false;
  if (window_.looks == 0) {
    first_s_ = at_s;
    for (const MetricSample& sample : samples) {
      if (IsCounter(sample.name) && std::isfinite(sample.value)) previous_.emplace(KeyOf(sample), sample);
    }
  } else {
    AddGrowth(samples);
  }
  ++window_.looks;
  last_s_ = at_s;
  if (window_.last.usage) {
    Widen(window_.usage_most, *window_.last.usage);
    usage_sum_ += *window_.last.usage;
    ++usage_looks_;
    window_.looks_nearly_full += *window_.last.usage >= kNearlyFullUsage;
  }
  if (window_.last.running) {
    Widen(window_.running_most, *window_.last.running);
    running_sum_ += *window_.last.running;
    ++running_looks_;
  }
  if (const auto waiting =
          window_.last.waiting_for_capacity ? window_.last.waiting_for_capacity : window_.last.waiting) {
    Widen(window_.waiting_most, *waiting);
    waiting_sum_ += *waiting;
    ++waiting_looks_;
  }
}

void MetricsWindowBuilder::AddFailure(const std::string& message) {
  ++window_.failed_looks;
  window_.last_failure = message;
  window_.ended_in_failure = true;
}

MetricsWindow MetricsWindowBuilder::Finish() const {
  MetricsWindow window = window_;
  window.seconds = last_s_ - first_s_;
  window.usage_mean = Mean(usage_sum_, usage_looks_);
  window.running_mean = Mean(running_sum_, running_looks_);
  window.waiting_mean = Mean(waiting_sum_, waiting_looks_);
  std::vector<MetricSample> samples;
  for (const auto& [key, sample] : growth_) samples.push_back(sample);
  window.growth = PoolMetricsOf(samples);
  return window;
}

Result<MetricsWindow> WatchMetrics(const std::string& url_or_path, const WatchPlan& plan) {
  using Clock = std::chrono::steady_clock;
  constexpr double kNap = 0.05;
  const Clock::time_point start = Clock::now();
  const auto elapsed = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto stopped = [&plan] { return plan.stop && plan.stop(); };
  const bool once = !IsMetricsUrl(url_or_path);
  MetricsWindowBuilder builder;
  bool early = false;
  for (int look = 0;; ++look) {
    const double due = look * plan.interval_s;
    if (look > 0 && (once || due > plan.duration_s + 1e-9)) break;
    while (!(early = stopped()) && elapsed() < due) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(kNap, due - elapsed())));
    }
    if (early && look > 0) break;
    auto text = FetchMetrics(url_or_path, plan.limits);
    auto samples = text.ok() ? ParseMetricsText(*text) : Result<std::vector<MetricSample>>(std::move(text).error());
    if (samples.ok()) {
      builder.Add(elapsed(), *samples);
    } else if (look == 0) {
      return std::move(samples).error();
    } else {
      builder.AddFailure(samples.error().message());
    }
    if (plan.progress) plan.progress(look + 1, builder.Finish());
    if (elapsed() > plan.duration_s) break;
  }
  MetricsWindow window = builder.Finish();
  window.stopped_early = early;
  return window;
}

}  // namespace haypile
