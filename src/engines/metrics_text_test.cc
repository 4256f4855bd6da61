#include "engines/metrics_text.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "engines/doctor.h"

namespace haypile {
namespace {

Findings Diagnose(const std::string& text) {
  const auto samples = ParseMetricsText(text);
  EXPECT_TRUE(samples.ok());
  return DiagnoseMetrics(PoolMetricsOf(*samples));
}

TEST(MetricsText, ReadsLabelsEscapesAndTimestamps) {
  const auto samples = ParseMetricsText("# HELP x y\na{b=\"c \\\"d\\\"\\n,}\",e=\"f\",} 1.5e3 1700000000\r\n b +Inf\n");
  ASSERT_TRUE(samples.ok()) << samples.error().message();
  ASSERT_EQ(samples->size(), 2U);
  EXPECT_EQ(*(*samples)[0].Label("b"), "c \"d\"\n,}");
  EXPECT_DOUBLE_EQ((*samples)[0].value, 1500.0);
  EXPECT_EQ((*samples)[1].name, "b");
}

TEST(MetricsText, RefusesWhatIsNoSample) {
  for (const char* text :
       {"", "# only a comment\n", "<html>", "a", "a{b=\"c} 1", "a{b=c} 1", "a 1x", "a 1 2 3", "{} 1"}) {
    EXPECT_FALSE(ParseMetricsText(text).ok()) << text;
  }
  const auto bad = ParseMetricsText("a 1\nnot a sample here\n");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message().find("line 2"), std::string::npos);
}

TEST(PoolMetrics, RealVllm) {
  const auto text = ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/logs/vllm-0.32.0-cpu-smollm2-135m-fp8.metrics.txt");
  ASSERT_TRUE(text.ok());
  const auto samples = ParseMetricsText(*text);
  ASSERT_TRUE(samples.ok()) << samples.error().message();
  const PoolMetrics metrics = PoolMetricsOf(*samples);
  EXPECT_EQ(metrics.engine, "vllm");
  EXPECT_EQ(metrics.usage, 0.0);
  EXPECT_EQ(metrics.preemptions, 0.0);
  EXPECT_EQ(metrics.prefix_queries, 13032.0);
  EXPECT_EQ(metrics.generation_tokens, 132.0);
  EXPECT_EQ(metrics.cache_dtype, "fp8");
  EXPECT_EQ(metrics.pool_tokens, 23296.0);
  ASSERT_TRUE(metrics.time_to_first_token.has_value());
  EXPECT_EQ(metrics.time_to_first_token->count, 4.0);
  EXPECT_EQ(DiagnoseMetrics(metrics).front().id, "pool.idle");
}

TEST(PoolMetrics, OldAndNewNamesAnswerAlike) {
  for (const char* usage : {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage",
                            "trtllm_kv_cache_utilization", "llamacpp:kv_cache_usage_ratio"}) {
    EXPECT_EQ(Diagnose(std::string(usage) + " 0.97\n").front().id, "pool.is_limit") << usage;
  }
  EXPECT_EQ(Diagnose("vllm:gpu_cache_usage_perc 0.3\nvllm:num_preemptions 4\n").front().id, "pool.was_limit");
  EXPECT_EQ(Diagnose("other_metric 3\n").front().id, "pool.unknown");
}

TEST(PoolMetrics, RoomMeansKeepTheModelsDtype) {
  const Findings room =
      Diagnose("vllm:kv_cache_usage_perc 0.4\nvllm:num_requests_running 9\nvllm:num_requests_waiting 0\n");
  EXPECT_EQ(room.front().id, "pool.has_room");
  EXPECT_NE(room.front().what.find("Keep the model's KV dtype"), std::string::npos);
  const Findings waiting = Diagnose("sglang:token_usage 0.4\nsglang:num_running_reqs 9\nsglang:num_queue_reqs 5\n");
  EXPECT_EQ(waiting.front().id, "pool.not_limit_but_waiting");
}

TEST(PoolMetrics, WorstEngineAndSummedCounters) {
  const Findings findings = Diagnose(
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.99\n"
      "vllm:num_preemptions_total{engine=\"0\"} 2\nvllm:num_preemptions_total{engine=\"1\"} 3\n");
  EXPECT_EQ(findings.front().id, "pool.is_limit");
  EXPECT_NE(findings.front().what.find("5 preemptions"), std::string::npos);
}

TEST(FetchMetrics, RefusesWhatItCannotFetch) {
  EXPECT_EQ(FetchMetrics("https://example.invalid/metrics").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(FetchMetrics("http://").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(FetchMetrics("http://127.0.0.1:1/metrics").error().code(), ErrorCode::kNetwork);
  EXPECT_EQ(FetchMetrics("no/such/file").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace haypile
