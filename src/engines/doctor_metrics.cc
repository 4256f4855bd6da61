#include "engines/doctor_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engines/doctor.h"
#include "engines/metrics_window.h"
#include "planner/number_text.h"

namespace haypile {
namespace {

constexpr double kNearlyFull = kNearlyFullUsage;

LogLine Value(const std::string& text) { return {0, text}; }

std::string Whole(double value) { return WholeText(value); }

std::vector<LogLine> EvidenceOf(const PoolMetrics& metrics) {
  std::vector<LogLine> evidence;
  if (metrics.usage) evidence.push_back(Value(fmt::format("cache usage {:.1f}%", 100 * *metrics.usage)));
  if (metrics.running) evidence.push_back(Value("running " + Whole(*metrics.running)));
  if (metrics.waiting) evidence.push_back(Value("waiting " + Whole(*metrics.waiting)));
  if (metrics.waiting_for_capacity)
    evidence.push_back(Value("waiting for capacity " + Whole(*metrics.waiting_for_capacity)));
  if (metrics.preemptions) evidence.push_back(Value("preemptions since the start " + Whole(*metrics.preemptions)));
  if (metrics.prefix_hit_rate)
    evidence.push_back(Value(fmt::format("prefix hits {:.1f}% of prompt tokens", 100 * *metrics.prefix_hit_rate)));
  return evidence;
}

Finding PoolAnswer(const PoolMetrics& metrics) {
  Finding finding{"pool.is_limit", Severity::kProblem, "", EvidenceOf(metrics), "", {}, ""};
  if (!metrics.usage && !metrics.preemptions) {
    finding.id = "pool.unknown";
    finding.severity = Severity::kUnknown;
    finding.what =
        "Is the pool the limit? These metrics do not tell: neither the cache's usage nor preemptions are among them.";
    finding.why = "Without an answer a smaller KV dtype is a guess.";
    finding.type = {"SGLang: --enable-metrics; llama.cpp: --metrics", "haypile doctor --log FILE"};
    finding.check = "this command names a usage";
    return finding;
  }
  const double usage = metrics.usage.value_or(0.0), preemptions = metrics.preemptions.value_or(0.0);
  const double waiting = metrics.waiting_for_capacity.value_or(metrics.waiting.value_or(0.0));
  const bool idle = metrics.running.value_or(0.0) == 0 && waiting == 0;
  if (usage >= kNearlyFull || preemptions > 0) {
    const bool now = usage >= kNearlyFull;
    finding.what = fmt::format("Is the pool the limit? {}: {:.1f}% in use, {} waiting, {} preemptions since the start.",
                               now ? "Yes" : "It was at times", 100 * usage, Whole(waiting), Whole(preemptions));
    if (!now || (waiting == 0 && preemptions == 0)) finding.severity = Severity::kWarning;
    if (!now) finding.id = "pool.was_limit";
    finding.why =
        "A request that finds no room waits, and a preempted one is computed again: a larger pool, fewer requests at "
        "once "
        "or a smaller KV dtype helps.";
    finding.type = LimitAdvice();
    finding.check = "no further preemptions and usage below 90% at the same load";
    return finding;
  }
  finding.id = idle ? "pool.idle" : waiting > 0 ? "pool.not_limit_but_waiting" : "pool.has_room";
  finding.severity = idle ? Severity::kUnknown : Severity::kGood;
  finding.what = fmt::format(
      "Is the pool the limit? No: {:.1f}% in use, {} waiting, {} preemptions since the start{}. Keep the model's "
      "KV dtype.",
      100 * usage, Whole(waiting), Whole(preemptions), idle ? "; but nothing runs now, so look again under load" : "");
  finding.why = waiting > 0 ? "Requests wait for something else (the limit of requests at once, or compute); a smaller "
                              "KV dtype would not "
                              "help them."
                            : "There is room: a smaller KV dtype would cost accuracy and buy nothing.";
  finding.type = {"--kv-cache-dtype auto   # llama.cpp: -ctk f16 -ctv f16"};
  if (waiting > 0) finding.type.push_back("--max-num-seqs N   # more at once");
  finding.check = "usage at the day's peak: this command then";
  return finding;
}

}  // namespace

std::string WholeText(double value) {
  return Grouped(static_cast<int64_t>(std::llround(std::clamp(value, -9e15, 9e15))));
}

std::vector<std::string> LimitAdvice() {
  return {"haypile plan MODEL   # what each dtype would hold", "haypile compare MODEL   # what it costs",
          "--max-num-seqs N   # fewer at once (SGLang: --max-running-requests)"};
}

void AddPrefixHits(const PoolMetrics& metrics, const std::string& over, Findings& findings) {
  if (!metrics.prefix_hit_rate || metrics.prefix_queries.value_or(1.0) <= 0) return;
  const double rate = *metrics.prefix_hit_rate;
  findings.push_back({"prefix.hits",
                      Severity::kNote,
                      fmt::format("{:.1f}% of prompt tokens came from the prefix cache, {}.", 100 * rate, over),
                      {},
                      rate < 0.05
                          ? "Prompts share nothing, or their blocks are gone before they are asked for again: a larger "
                            "pool helps only the second."
                          : "What the pool keeps beyond running requests earns this; a larger pool may earn more.",
                      {},
                      "the share over a day"});
}

void AddRecomputed(const PoolMetrics& metrics, const std::string& over, Findings& findings) {
  if (!metrics.computed_prompt_tokens || !metrics.prompt_tokens || metrics.preemptions.value_or(0.0) <= 0) return;
  const double saved = metrics.prefix_hits.value_or(0.0);
  const double needed = *metrics.prompt_tokens - saved;
  const double again = *metrics.computed_prompt_tokens - needed;
  if (needed <= 0 || again <= 0) return;
  findings.push_back(
      {"load.recomputed",
       Severity::kWarning,
       fmt::format("{} of {} computed prompt tokens ({:.1f}%) were computed again after preemptions, {}.", Whole(again),
                   Whole(*metrics.computed_prompt_tokens), 100 * again / *metrics.computed_prompt_tokens, over),
       {{0, fmt::format("prompt tokens {}, of the prefix cache {}, computed {}, preemptions {}",
                        Whole(*metrics.prompt_tokens), Whole(saved), Whole(*metrics.computed_prompt_tokens),
                        Whole(*metrics.preemptions))}},
       "Work done twice is throughput lost.",
       {"--max-num-seqs N   # fewer at once"},
       "the share falls under the same load"});
}

void AddLatencies(const PoolMetrics& metrics, const std::string& over, Findings& findings) {
  std::string text;
  std::vector<LogLine> evidence;
  const auto add = [&](const char* what, const std::optional<LatencyMetric>& latency) {
    if (!latency) return;
    text += fmt::format("{}{} {:.3f} s on average", text.empty() ? "" : "; ", what, latency->mean_s);
    if (latency->p95_at_most_s) text += fmt::format(" (95% within {:g} s)", *latency->p95_at_most_s);
    std::string line;
    for (const LatencyQuantile& quantile : latency->quantiles) {
      line += line.empty() ? "" : ", ";
      line += quantile.estimate_s ? fmt::format("{:g}%: {:.3f} s (between {:g} and {:g})", 100 * quantile.quantile,
                                                *quantile.estimate_s, quantile.above_s, *quantile.at_most_s)
                                  : fmt::format("{:g}%: above {:g} s", 100 * quantile.quantile, quantile.above_s);
    }
    if (!line.empty()) evidence.push_back(Value(fmt::format("{}, {} samples: {}", what, Whole(latency->count), line)));
  };
  add("time to the first token", metrics.time_to_first_token);
  add("time per token", metrics.time_per_token);
  add("in the queue", metrics.queue_time);
  if (text.empty()) return;
  findings.push_back({"latency",
                      Severity::kNote,
                      text + "; " + over + ".",
                      evidence,
                      "From histograms: a bound is its bucket's edge, a quantile lies somewhere inside its bucket.",
                      {},
                      "the same figures after the change"});
}

void AddPoolSize(const PoolMetrics& metrics, Findings& findings) {
  if (!metrics.pool_tokens && metrics.cache_dtype.empty()) return;
  std::string text = "The pool: ";
  if (metrics.pool_tokens) text += Whole(*metrics.pool_tokens) + " tokens";
  if (metrics.pool_concurrency)
    text += fmt::format(", {:.2f} requests of the longest length", *metrics.pool_concurrency);
  if (!metrics.cache_dtype.empty())
    text += (metrics.pool_tokens ? ", " : "") + std::string("dtype asked for: ") + metrics.cache_dtype;
  findings.push_back({"pool.size",
                      Severity::kNote,
                      text + ".",
                      {},
                      "What the usage is a share of.",
                      {},
                      "haypile plan MODEL gives the same number"});
}

Findings DiagnoseMetrics(const PoolMetrics& metrics) {
  const std::string over = "since the server's start";
  Findings findings{PoolAnswer(metrics)};
  AddRecomputed(metrics, over, findings);
  AddPrefixHits(metrics, over, findings);
  AddLatencies(metrics, over, findings);
  AddPoolSize(metrics, findings);
  return findings;
}

}  // namespace haypile
