#pragma once

#include <span>
#include <string_view>

namespace haypile {

// Every number a verdict turns on. docs/verdict.md shows the same table; a test holds the two together.
enum class Limit {
  kFloorBroken,
  kNoiseMultiple,
  kKlSmall,
  kKlVisible,
  kTop1Drop,
  kPerplexityShip,
  kPerplexityNoShip,
  kFewestTokens,
  kFewestBucketTokens,
  kConfidence,
  kSignificance,
  kSuspectLoss,
  kFewestSpeedSamples,
  kSpeedDifference,
  kClockDifference,
  kSlowerMuch,
  kGainTokens,
  kScaleClips,
  kScaleTooWide,
  kScaleHigh,
  kScaleLow,
};

struct LimitInfo {
  Limit limit;
  std::string_view name;
  double value;
  std::string_view unit;
  std::string_view reason;
};

std::span<const LimitInfo> AllLimits();
double ValueOf(Limit limit);

}  // namespace haypile
