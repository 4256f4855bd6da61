#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engines/doctor.h"
#include "engines/doctor_metrics.h"
#include "engines/metrics_window.h"

namespace haypile {
namespace {

std::string Percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string OverText(const MetricsWindow& window) { return fmt::format("in these {:.0f} s", window.seconds); }

std::vector<LogLine> EvidenceOf(const MetricsWindow& window) {
  std::vector<LogLine> evidence;
  const auto add = [&evidence](std::string text) { evidence.push_back({0, std::move(text)}); };
  add(fmt::format("{} looks over {:.1f} s", window.looks, window.seconds));
  if (window.usage_most) {
    add(fmt::format("cache usage {} on average, {} at most; {} of {} looks at 90% or more", Percent(*window.usage_mean),
                    Percent(*window.usage_most), window.looks_nearly_full, window.looks));
  }
  if (window.running_most) {
    add(fmt::format("running {:.1f} on average, {:.0f} at most", *window.running_mean, *window.running_most));
  }
  if (window.waiting_most) {
    add(fmt::format("waiting {:.1f} on average, {:.0f} at most", *window.waiting_mean, *window.waiting_most));
  }
  if (window.growth.preemptions) {
    add(fmt::format("preemptions {}, {:.2f} a second", WholeText(*window.growth.preemptions),
                    *window.growth.preemptions / window.seconds));
  }
  if (window.last.preemptions) add("preemptions since the server's start " + WholeText(*window.last.preemptions));
  return evidence;
}

struct Load {
  double usage_most = 0.0, waiting_most = 0.0, preempted = 0.0, preempted_ever = 0.0;
  bool idle = false, nearly_full = false;
};

Load LoadOf(const MetricsWindow& window) {
  Load load;
  load.usage_most = window.usage_most.value_or(0.0);
  load.waiting_most = window.waiting_most.value_or(0.0);
  load.preempted = window.growth.preemptions.value_or(0.0);
  load.preempted_ever = window.last.preemptions.value_or(0.0);
  load.idle = window.running_most.value_or(0.0) == 0.0 && load.waiting_most == 0.0 &&
              window.growth.generation_tokens.value_or(0.0) == 0.0;
  load.nearly_full = window.looks_nearly_full > 0;
  return load;
}

void SayLimit(const MetricsWindow& window, const Load& load, Finding& finding) {
  const bool hurts = load.preempted > 0 || load.waiting_most > 0;
  finding.id = "pool.is_limit";
  finding.severity = hurts ? Severity::kProblem : Severity::kWarning;
  finding.what = fmt::format(
      "Is the pool the limit? Yes, {}: up to {} in use ({} of {} looks at 90% or more), up to {:.0f} waiting, {} "
      "preemptions "
      "({:.2f} a second).",
      OverText(window), Percent(load.usage_most), window.looks_nearly_full, window.looks, load.waiting_most,
      WholeText(load.preempted), load.preempted / window.seconds);
  finding.why =
      "A request that finds no room waits, and a preempted one is computed again: a larger pool, fewer requests at "
      "once "
      "or a smaller KV dtype helps.";
  finding.type = LimitAdvice();
  finding.check = "no preemptions and usage below 90% at the same load, over a window as long";
}

void SayRoom(const MetricsWindow& window, const Load& load, Finding& finding) {
  finding.id = load.idle                 ? "pool.idle"
               : load.preempted_ever > 0 ? "pool.was_limit"
               : load.waiting_most > 0   ? "pool.not_limit_but_waiting"
                                         : "pool.has_room";
  finding.severity = load.idle ? Severity::kUnknown : load.preempted_ever > 0 ? Severity::kWarning : Severity::kGood;
  std::string more;
  if (load.preempted_ever > 0) {
    more = fmt::format(", though {} preemptions came before: it was at times, so look at the peak of a day",
                       WholeText(load.preempted_ever));
  } else if (!load.idle) {
    more = "; keep the model's KV dtype";
  }
  if (load.idle) more += "; but nothing ran, so look again under load";
  finding.what =
      fmt::format("Is the pool the limit? No, not {}: at most {} in use, up to {:.0f} waiting, no preemptions{}.",
                  OverText(window), Percent(load.usage_most), load.waiting_most, more);
  finding.why =
      load.waiting_most > 0
          ? "Requests wait for something else (the limit of requests at once, or compute); a smaller KV dtype "
            "would not help them."
          : "There is room: a smaller KV dtype would cost accuracy and buy nothing.";
  finding.type = {"--kv-cache-dtype auto   # llama.cpp: -ctk f16 -ctv f16"};
  if (load.waiting_most > 0) finding.type.push_back("--max-num-seqs N   # more at once");
  if (load.preempted_ever > 0 || load.idle) {
    finding.type.push_back("haypile doctor --metrics http://HOST:PORT --duration 600   # over a busy while");
  }
  finding.check = "usage at the day's peak: this command then";
}

Finding WindowAnswer(const MetricsWindow& window) {
  const Load load = LoadOf(window);
  Finding finding{"pool.unknown", Severity::kUnknown, "", EvidenceOf(window), "", {}, ""};
  if (!window.usage_most && !window.growth.preemptions) {
    finding.what =
        "Is the pool the limit? These metrics do not tell: neither the cache's usage nor preemptions are among them.";
    finding.why = "Without an answer a smaller KV dtype is a guess.";
    finding.type = {"SGLang: --enable-metrics; llama.cpp: --metrics", "haypile doctor --log FILE"};
    finding.check = "this command names a usage";
  } else if (load.nearly_full || load.preempted > 0) {
    SayLimit(window, load, finding);
  } else {
    SayRoom(window, load, finding);
  }
  return finding;
}

void AddThroughput(const MetricsWindow& window, Findings& findings) {
  const PoolMetrics& growth = window.growth;
  std::string text;
  const auto add = [&](const char* what, const std::optional<double>& tokens) {
    if (!tokens) return;
    text += fmt::format("{}{:.1f} {} tokens a second", text.empty() ? "" : ", ", *tokens / window.seconds, what);
  };
  add("generated", growth.generation_tokens);
  add("prompt", growth.prompt_tokens);
  if (text.empty()) return;
  findings.push_back(
      {"load.rates",
       Severity::kNote,
       text + ", " + OverText(window) + ".",
       {{0, fmt::format("growth: generated {}, prompt {}", WholeText(growth.generation_tokens.value_or(0.0)),
                        WholeText(growth.prompt_tokens.value_or(0.0)))}},
       "The figure to compare before and after a change, at the same load and clock.",
       {},
       "the same command after the change"});
}

// What makes the window less than it was meant to be.
void AddTroubles(const MetricsWindow& window, Findings& findings) {
  if (window.resets > 0) {
    findings.push_back({"metrics.reset",
                        Severity::kWarning,
                        fmt::format("Counters fell back {} within the window: the server was started again.",
                                    window.resets == 1 ? std::string("once") : fmt::format("{} times", window.resets)),
                        {{0, fmt::format("{} looks over {:.1f} s", window.looks, window.seconds)}},
                        "What happened between the last look before and the start is not counted, and a server that "
                        "restarts serves nobody meanwhile.",
                        {"haypile doctor --log LOG   # why it ended"},
                        "no such finding over the next window"});
  }
  if (window.failed_looks > 0) {
    findings.push_back({window.ended_in_failure ? "metrics.server_gone" : "metrics.looks_failed",
                        window.ended_in_failure ? Severity::kProblem : Severity::kWarning,
                        fmt::format("{} of {} looks brought no metrics{}: {}.", window.failed_looks,
                                    window.failed_looks + window.looks,
                                    window.ended_in_failure ? ", the last one among them" : "", window.last_failure),
                        {{0, window.last_failure}},
                        window.ended_in_failure
                            ? "The server has ended or hangs; what is said here is of the time before."
                            : "The answers are of the looks that succeeded.",
                        {"haypile doctor --log LOG   # why it ended"},
                        "every look succeeds"});
  }
  if (window.stopped_early) {
    findings.push_back(
        {"metrics.stopped_early",
         Severity::kNote,
         fmt::format("The window was ended early, after {} looks in {:.1f} s.", window.looks, window.seconds),
         {},
         "A short window may miss the peak.",
         {},
         "a window as long as a busy while"});
  }
}

}  // namespace

Findings DiagnoseWindow(const MetricsWindow& window) {
  Findings findings;
  if (window.looks < 2 || window.seconds <= 0.0) {
    findings = DiagnoseMetrics(window.last);
    AddTroubles(window, findings);
    return findings;
  }
  findings.push_back(WindowAnswer(window));
  AddTroubles(window, findings);
  AddRecomputed(window.growth, OverText(window), findings);
  if (window.growth.prefix_hit_rate) {
    AddPrefixHits(window.growth, OverText(window), findings);
  } else if (!window.growth.prefix_queries) {
    AddPrefixHits(window.last, "as the server says", findings);  // a gauge
  }
  AddThroughput(window, findings);
  AddLatencies(window.growth, OverText(window), findings);
  AddPoolSize(window.last, findings);
  return findings;
}

}  // namespace haypile
