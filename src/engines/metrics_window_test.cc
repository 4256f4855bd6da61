#include "engines/metrics_window.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engines/doctor.h"
#include "engines/local_server_test.h"

namespace haypile {
namespace {

std::vector<MetricSample> Samples(const std::string& text) {
  auto samples = ParseMetricsText(text);
  EXPECT_TRUE(samples.ok()) << text;
  return std::move(samples).value();
}

// What a vLLM server under load shows.
std::string Page(double usage, int running, int waiting, int preemptions, int generated, int queries, int hits) {
  return fmt::format(
      "vllm:kv_cache_usage_perc{{engine=\"0\"}} {}\nvllm:num_requests_running{{engine=\"0\"}} {}\n"
      "vllm:num_requests_waiting{{engine=\"0\"}} {}\nvllm:num_preemptions_total{{engine=\"0\"}} {}\n"
      "vllm:generation_tokens_total{{engine=\"0\"}} {}\nvllm:prefix_cache_queries_total{{engine=\"0\"}} {}\n"
      "vllm:prefix_cache_hits_total{{engine=\"0\"}} {}\n",
      usage, running, waiting, preemptions, generated, queries, hits);
}

// A histogram of `fast` samples within 0.1 s and `slow` between 0.1 and 0.5 s.
std::string Histogram(const char* name, int fast, int slow) {
  return fmt::format(
      "{0}_bucket{{le=\"0.1\"}} {1}\n{0}_bucket{{le=\"0.5\"}} {2}\n{0}_bucket{{le=\"+Inf\"}} {2}\n"
      "{0}_count {2}\n{0}_sum {3}\n",
      name, fast, fast + slow, 0.05 * fast + 0.3 * slow);
}

MetricsWindow WindowOf(const std::vector<std::string>& pages, double interval_s = 2.0) {
  MetricsWindowBuilder builder;
  for (size_t i = 0; i < pages.size(); ++i) builder.Add(static_cast<double>(i) * interval_s, Samples(pages[i]));
  return builder.Finish();
}

TEST(MetricsWindow, RatesOfCountersAndWorstOfGauges) {
  const MetricsWindow window = WindowOf({Page(0.5, 4, 0, 100, 1000, 500, 100), Page(0.95, 8, 3, 103, 1600, 900, 300),
                                         Page(0.7, 6, 1, 104, 2000, 1000, 350)});
  EXPECT_EQ(window.looks, 3);
  EXPECT_DOUBLE_EQ(window.seconds, 4.0);
  EXPECT_EQ(window.resets, 0);
  EXPECT_EQ(window.growth.preemptions, 4.0);
  EXPECT_EQ(window.growth.generation_tokens, 1000.0);
  EXPECT_DOUBLE_EQ(*window.growth.prefix_hit_rate, 0.5);  // not 350 / 1000 since the start
  EXPECT_DOUBLE_EQ(*window.usage_most, 0.95);
  EXPECT_NEAR(*window.usage_mean, 2.15 / 3, 1e-12);
  EXPECT_EQ(window.looks_nearly_full, 1);
  EXPECT_DOUBLE_EQ(*window.waiting_most, 3.0);
  const Findings findings = DiagnoseWindow(window);
  EXPECT_EQ(findings.front().id, "pool.is_limit");
  EXPECT_NE(findings.front().what.find("4 preemptions (1.00 a second)"), std::string::npos) << findings.front().what;
}

TEST(MetricsWindow, PreemptionsOfBeforeAreNotOfNow) {
  const Findings findings = DiagnoseWindow(WindowOf({Page(0.4, 4, 0, 100, 0, 1, 0), Page(0.5, 4, 0, 100, 90, 1, 0)}));
  EXPECT_EQ(findings.front().id, "pool.was_limit");
  EXPECT_EQ(findings.front().severity, Severity::kWarning);
  EXPECT_NE(findings.front().what.find("100 preemptions came before"), std::string::npos);
}

TEST(MetricsWindow, RoomAndWaitingAndIdle) {
  EXPECT_EQ(DiagnoseWindow(WindowOf({Page(0.4, 4, 0, 0, 0, 1, 0), Page(0.5, 4, 0, 0, 90, 1, 0)})).front().id,
            "pool.has_room");
  EXPECT_EQ(DiagnoseWindow(WindowOf({Page(0.4, 4, 7, 0, 0, 1, 0), Page(0.5, 4, 7, 0, 90, 1, 0)})).front().id,
            "pool.not_limit_but_waiting");
  EXPECT_EQ(DiagnoseWindow(WindowOf({Page(0.0, 0, 0, 0, 90, 1, 0), Page(0.0, 0, 0, 0, 90, 1, 0)})).front().id,
            "pool.idle");
}

// A server that was started again counts from zero: what it shows since then is its growth.
TEST(MetricsWindow, CounterResets) {
  const MetricsWindow window = WindowOf({Page(0.5, 1, 0, 10, 1000, 10, 0), Page(0.5, 1, 0, 12, 1100, 20, 5),
                                         Page(0.5, 1, 0, 1, 50, 2, 1), Page(0.5, 1, 0, 1, 80, 4, 2)});
  EXPECT_EQ(window.resets, 1);
  EXPECT_EQ(window.growth.preemptions, 3.0);
  EXPECT_EQ(window.growth.generation_tokens, 180.0);
  const Findings findings = DiagnoseWindow(window);
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(),
                          [](const Finding& finding) { return finding.id == "metrics.reset"; }));
}

TEST(MetricsWindow, QuantilesFromHistogramDifferences) {
  const char* name = "vllm:time_to_first_token_seconds";
  // 1,000 slow samples from before must not count.
  const MetricsWindow window = WindowOf({Histogram(name, 0, 1000), Histogram(name, 80, 1020)});
  ASSERT_TRUE(window.growth.time_to_first_token.has_value());
  const LatencyMetric& latency = *window.growth.time_to_first_token;
  EXPECT_EQ(latency.count, 100.0);
  EXPECT_NEAR(latency.mean_s, (0.05 * 80 + 0.3 * 20) / 100, 1e-9);
  ASSERT_EQ(latency.quantiles.size(), 3U);
  EXPECT_NEAR(*latency.quantiles[0].estimate_s, 0.1 * 50 / 80, 1e-9);  // the median lies in the first bucket
  EXPECT_NEAR(*latency.quantiles[1].estimate_s, 0.1 + 0.4 * 15 / 20, 1e-9);
  EXPECT_EQ(latency.quantiles[1].at_most_s, 0.5);
  EXPECT_EQ(latency.p95_at_most_s, 0.5);
}

TEST(MetricsWindow, QuantileBeyondTheLastBucket) {
  const auto page = [](int count) {
    return fmt::format(
        "sglang:time_to_first_token_seconds_bucket{{le=\"1\"}} 0\n"
        "sglang:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {0}\n"
        "sglang:time_to_first_token_seconds_count {0}\nsglang:time_to_first_token_seconds_sum {0}\n",
        count);
  };
  const MetricsWindow window = WindowOf({page(1), page(9)});
  const LatencyQuantile& median = window.growth.time_to_first_token->quantiles[0];
  EXPECT_EQ(median.above_s, 1.0);
  EXPECT_FALSE(median.at_most_s.has_value());
  EXPECT_FALSE(median.estimate_s.has_value());
}

TEST(MetricsWindow, LabelSetsCountApart) {
  // Engine 0 was set back to 1 while engine 1 grew: the sum alone (10, then 41) would show no reset.
  const MetricsWindow window =
      WindowOf({"vllm:num_preemptions_total{engine=\"0\"} 5\nvllm:num_preemptions_total{engine=\"1\"} 5\n",
                "vllm:num_preemptions_total{engine=\"0\"} 1\nvllm:num_preemptions_total{engine=\"1\"} 40\n"});
  EXPECT_EQ(window.resets, 1);
  EXPECT_EQ(window.growth.preemptions, 36.0);
}

WatchPlan Quick(double duration_s, double interval_s = 0.1) {
  WatchPlan plan;
  plan.duration_s = duration_s;
  plan.interval_s = interval_s;
  plan.limits.silence_s = 5.0;  // a busy machine answers late
  plan.limits.total_s = 5.0;
  return plan;
}

TEST(WatchMetrics, ChangingFigures) {
  std::atomic<int> look{0};
  LocalServer server("/metrics", [&look](const httplib::Request&, httplib::Response& response) {
    const int n = look++;
    response.set_content(Page(0.2 + 0.1 * n, 3, 0, 5 + n, 100 * n, 10, 1), "text/plain; version=0.0.4");
  });
  WatchPlan plan = Quick(0.45);
  int progress = 0;
  plan.progress = [&progress](int, const MetricsWindow&) { ++progress; };
  const auto window = WatchMetrics(server.Url(), plan);
  ASSERT_TRUE(window.ok()) << window.error().message();
  ASSERT_GE(window->looks, 2);  // a busy machine makes fewer than five
  ASSERT_LE(window->looks, 5);
  EXPECT_EQ(progress, window->looks);
  EXPECT_EQ(window->growth.preemptions, window->looks - 1.0);
  EXPECT_EQ(window->growth.generation_tokens, 100.0 * (window->looks - 1));
  EXPECT_NEAR(*window->usage_most, 0.2 + 0.1 * (window->looks - 1), 1e-9);
  EXPECT_GT(window->seconds, 0.0);
  EXPECT_EQ(window->failed_looks, 0);
}

TEST(WatchMetrics, EndedEarlyKeepsWhatItHas) {
  LocalServer server("/metrics", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(Page(0.5, 3, 0, 0, 1, 10, 1), "text/plain");
  });
  WatchPlan plan = Quick(60.0);
  int looks = 0;
  plan.progress = [&looks](int, const MetricsWindow&) { ++looks; };
  plan.stop = [&looks] { return looks >= 2; };
  const auto window = WatchMetrics(server.Url("/metrics"), plan);
  ASSERT_TRUE(window.ok());
  EXPECT_TRUE(window->stopped_early);
  EXPECT_EQ(window->looks, 2);
  EXPECT_LT(window->seconds, 5.0);
}

TEST(WatchMetrics, ServerThatDiesInTheMiddle) {
  LocalServer server("/metrics", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(Page(0.5, 3, 0, 2, 1, 10, 1), "text/plain");
  });
  WatchPlan plan = Quick(2.0);
  plan.progress = [&server](int look, const MetricsWindow&) {
    if (look == 2) server.Stop();
  };
  const auto window = WatchMetrics(server.Url(), plan);
  ASSERT_TRUE(window.ok()) << window.error().message();
  EXPECT_EQ(window->looks, 2);
  EXPECT_GE(window->failed_looks, 1);
  EXPECT_TRUE(window->ended_in_failure);
  const Findings findings = DiagnoseWindow(*window);
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.id == "metrics.server_gone" && finding.severity == Severity::kProblem;
  }));
}

TEST(WatchMetrics, StatusesThatAreNoMetrics) {
  for (const auto& [status, words] : {std::pair(401, "credentials"), std::pair(403, "credentials"),
                                      std::pair(404, "--enable-metrics"), std::pair(503, "look at its log")}) {
    const int code = status;
    LocalServer server("/metrics",
                       [code](const httplib::Request&, httplib::Response& response) { response.status = code; });
    const auto window = WatchMetrics(server.Url(), Quick(0.2));
    ASSERT_FALSE(window.ok()) << status;
    EXPECT_EQ(window.error().code(), ErrorCode::kNetwork);
    EXPECT_NE(window.error().message().find(std::to_string(status)), std::string::npos);
    EXPECT_NE(window.error().message().find(words), std::string::npos) << window.error().message();
  }
}

TEST(WatchMetrics, PageThatIsNoMetricsText) {
  LocalServer server("/metrics", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("<html><body>hello</body></html>\n", "text/html");
  });
  EXPECT_EQ(WatchMetrics(server.Url(), Quick(0.2)).error().code(), ErrorCode::kMalformed);
}

TEST(WatchMetrics, ServerThatHangs) {
  std::atomic<bool> done{false};
  LocalServer server("/metrics", [&done](const httplib::Request&, httplib::Response&) {
    for (int i = 0; i < 100 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  WatchPlan plan = Quick(0.2);
  plan.limits.silence_s = 0.3;
  const auto start = std::chrono::steady_clock::now();
  const auto window = WatchMetrics(server.Url(), plan);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  done = true;
  ASSERT_FALSE(window.ok());
  EXPECT_EQ(window.error().code(), ErrorCode::kNetwork);
  EXPECT_LT(took, 4.5);  // not the five seconds that the server sleeps
}

TEST(WatchMetrics, EndlessBodies) {
  const std::string line = "vllm:kv_cache_usage_perc 0.5\n";
  for (const bool fast : {true, false}) {
    std::atomic<bool> done{false};
    LocalServer server("/metrics", [&, fast](const httplib::Request&, httplib::Response& response) {
      response.set_chunked_content_provider("text/plain", [&, fast](size_t, httplib::DataSink& sink) {
        if (!fast) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return !done && sink.write(line.data(), line.size());
      });
    });
    WatchPlan plan = Quick(0.2);
    plan.limits.bytes = 10'000;
    plan.limits.total_s = fast ? 5.0 : 1.0;
    const auto window = WatchMetrics(server.Url(), plan);
    done = true;
    ASSERT_FALSE(window.ok());
    EXPECT_EQ(window.error().code(), ErrorCode::kNetwork);
    EXPECT_NE(window.error().message().find(fast ? "longer than 10000 bytes" : "did not end within 1 seconds"),
              std::string::npos)
        << window.error().message();
  }
}

TEST(WatchMetrics, FileIsLookedAtOnce) {
  const auto window =
      WatchMetrics(std::string(HAYPILE_TESTDATA_DIR) + "/logs/vllm-0.32.0-cpu-smollm2-135m-fp8.metrics.txt", Quick(60));
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(window->looks, 1);
  EXPECT_EQ(window->last.pool_tokens, 23296.0);
}

}  // namespace
}  // namespace haypile
