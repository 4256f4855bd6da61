#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/metrics_text.h"

namespace haypile {

// What metrics say over a while: gauges by their worst and their mean, counters by what they grew.
struct MetricsWindow {
  int looks = 0;         // that brought metrics
  int failed_looks = 0;  // that did not, after the first
  std::string last_failure;
  bool ended_in_failure = false;  // the newest look failed
  bool stopped_early = false;     // by the user
  double seconds = 0.0;           // from the first look to the last that brought metrics
  int resets = 0;                 // looks at which a counter had fallen: the server was started again
  PoolMetrics last;               // the newest look, counters since the server's start
  PoolMetrics growth;             // counters and histograms alone, over the window; empty below two looks
  std::optional<double> usage_most, usage_mean, running_most, running_mean, waiting_most, waiting_mean;
  int looks_nearly_full = 0;  // with usage of kNearlyFullUsage or more
};
inline constexpr double kNearlyFullUsage = 0.9;

// Adds looks one by one. A counter that falls was set back to zero: what it shows since then is its growth, as
// Prometheus' rate() has it.
class MetricsWindowBuilder {
 public:
  // `at_s` since any fixed moment, ascending.
  void Add(double at_s, const std::vector<MetricSample>& samples);
  void AddFailure(const std::string& message);
  MetricsWindow Finish() const;

 private:
  using Series = std::map<std::string, MetricSample>;  // by name and labels

  void AddGrowth(const std::vector<MetricSample>& samples);

  MetricsWindow window_;
  double first_s_ = 0.0, last_s_ = 0.0;
  Series previous_, growth_;
  double usage_sum_ = 0.0, running_sum_ = 0.0, waiting_sum_ = 0.0;
  int usage_looks_ = 0, running_looks_ = 0, waiting_looks_ = 0;
};

// How to look for a while. A file is looked at once.
struct WatchPlan {
  double duration_s = 10.0;
  double interval_s = 2.0;
  FetchLimits limits = {};
  std::function<bool()> stop = {};                                      // asked often; empty: never
  std::function<void(int look, const MetricsWindow& so_far)> progress;  // after each look; may be empty
};

// The first look must succeed: its error is the error. Later ones may fail, and are counted.
Result<MetricsWindow> WatchMetrics(const std::string& url_or_path, const WatchPlan& plan);

}  // namespace haypile
