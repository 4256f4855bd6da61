#include "evaluate/speed_judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "evaluate/verdict_limits.h"

namespace haypile {
namespace {

enum class Side { kNone, kLess, kMore };

Side SideOf(double baseline, double baseline_spread, double candidate, double candidate_spread) {
  const double difference = candidate - baseline;
  const double needed =
      std::max(baseline_spread + candidate_spread, ValueOf(Limit::kSpeedDifference) * std::abs(baseline));
  if (!(std::abs(difference) > needed)) return Side::kNone;
  return difference < 0 ? Side::kLess : Side::kMore;
}

std::string Describe(const SpeedComparison& comparison) {
  const double percent = 100 * (comparison.time_ratio - 1);
  std::string text;
  switch (comparison.finding) {
    case SpeedFinding::kFaster:
      text = fmt::format("{:.0f} % less time", -percent);
      break;
    case SpeedFinding::kSlower:
      text = fmt::format("{:.0f} % more time", percent);
      break;
    case SpeedFinding::kWithinSpread:
      text = fmt::format("no difference beyond the spread ({:+.1f} % as timed)", percent);
      break;
    case SpeedFinding::kClockExplains:
      text = fmt::format("{:+.1f} % as timed, which the clock explains", percent);
      break;
    case SpeedFinding::kTooFewSamples:
      text = fmt::format("{:+.1f} % as timed, too few samples to judge", percent);
      break;
  }
  if (comparison.clock_ratio) {
    const double clock = 100 * (*comparison.clock_ratio - 1);
    text += fmt::format("; the processor's clock was {:.1f} % {}", std::abs(clock), clock > 0 ? "higher" : "lower");
  }
  return text;
}

TimedFigure FigureOf(const DecodePoint& point) {
  return {point.ms_per_token, point.spread, point.samples, point.clock_mhz};
}

// Seconds a token, so that less is better as everywhere else. d(1/x) = dx / x^2.
TimedFigure FigureOf(const PrefillPoint& point) {
  if (point.tok_per_s <= 0) return {};
  return {1 / point.tok_per_s, point.spread / (point.tok_per_s * point.tok_per_s), point.samples, point.clock_mhz};
}

void Note(const SpeedComparison& comparison, const std::string& what, SpeedJudgement& judgement) {
  judgement.lines.push_back(what + ": " + Describe(comparison));
  judgement.any_faster |= comparison.finding == SpeedFinding::kFaster;
  judgement.much_slower |=
      comparison.finding == SpeedFinding::kSlower && comparison.time_ratio > ValueOf(Limit::kSlowerMuch);
}

}  // namespace

SpeedComparison CompareTimes(const TimedFigure& baseline, const TimedFigure& candidate) {
  SpeedComparison result;
  if (!(baseline.time > 0) || !(candidate.time > 0)) {
    result.finding = SpeedFinding::kTooFewSamples;
    return result;
  }
  result.time_ratio = candidate.time / baseline.time;
  double clock_ratio = 1;
  if (baseline.clock_mhz.value_or(0) > 0 && candidate.clock_mhz.value_or(0) > 0) {
    clock_ratio = *candidate.clock_mhz / *baseline.clock_mhz;
    if (std::abs(clock_ratio - 1) > ValueOf(Limit::kClockDifference)) result.clock_ratio = clock_ratio;
  }
  const double fewest = ValueOf(Limit::kFewestSpeedSamples);
  if (static_cast<double>(std::min(baseline.samples, candidate.samples)) < fewest) {
    result.finding = SpeedFinding::kTooFewSamples;
    return result;
  }
  const Side timed = SideOf(baseline.time, baseline.spread, candidate.time, candidate.spread);
  const double at_equal_clock = result.clock_ratio ? clock_ratio : 1;
  const Side adjusted =
      SideOf(baseline.time, baseline.spread, candidate.time * at_equal_clock, candidate.spread * at_equal_clock);
  if (timed == Side::kNone) {
    result.finding = SpeedFinding::kWithinSpread;
  } else if (timed != adjusted) {
    result.finding = SpeedFinding::kClockExplains;
  } else {
    result.finding = timed == Side::kLess ? SpeedFinding::kFaster : SpeedFinding::kSlower;
  }
  return result;
}

SpeedJudgement JudgeSpeed(const CompareSpeed& baseline, const CompareSpeed& candidate) {
  SpeedJudgement judgement;
  std::map<int64_t, std::pair<const PrefillPoint*, const PrefillPoint*>> prefill;
  for (const PrefillPoint& a : baseline.prefill) {
    for (const PrefillPoint& b : candidate.prefill) {
      if (a.prompt_tokens == b.prompt_tokens) prefill[a.prompt_tokens] = {&a, &b};
    }
  }
  std::map<int64_t, std::pair<const DecodePoint*, const DecodePoint*>> deepest;  // by streams
  for (const DecodePoint& a : baseline.decode) {
    for (const DecodePoint& b : candidate.decode) {
      if (a.streams != b.streams || a.depth != b.depth) continue;
      auto& pair = deepest[a.streams];
      if (pair.first == nullptr || pair.first->depth < a.depth) pair = {&a, &b};
    }
  }
  if (!prefill.empty()) {
    const auto& [tokens, pair] = *prefill.rbegin();
    Note(CompareTimes(FigureOf(*pair.first), FigureOf(*pair.second)), fmt::format("prefill of {} tokens", tokens),
         judgement);
  }
  for (const auto& [streams, pair] : deepest) {
    Note(CompareTimes(FigureOf(*pair.first), FigureOf(*pair.second)),
         fmt::format("decode with {} stream{} at {} tokens ({:.2f} against {:.2f} ms a token)", streams,
                     streams == 1 ? "" : "s", pair.first->depth, pair.second->ms_per_token, pair.first->ms_per_token),
         judgement);
  }
  return judgement;
}

}  // namespace haypile
