#include "evaluate/verdict_limits.h"

#include "base/check.h"
#include "report/compare_tables.h"

namespace haypile {
namespace {

constexpr LimitInfo kLimits[] = {
    {Limit::kFloorBroken, "floor broken", 0.01, "nats",
     "a baseline that differs from itself by more than a small KL is no measure for anything"},
    {Limit::kNoiseMultiple, "noise multiple", 3, "times the floor",
     "the baseline in another order of arithmetic gives the floor; up to three times it, a dtype is not told apart"},
    {Limit::kKlSmall, "small KL", 0.01, "nats",
     "FP8 E4M3 stays below it on both reference models (.006 to .008), with nine of ten first choices or more "
     "unchanged"},
    {Limit::kKlVisible, "visible KL", 0.05, "nats",
     "above it lies NVFP4 on keys and values (.06 to .08), where every sixth first choice changes"},
    {Limit::kTop1Drop, "top-1 drop", 0.10, "share",
     "one first choice in ten changed beyond the floor: texts part within a sentence, tasks must decide"},
    {Limit::kPerplexityShip, "perplexity, ship", 1.02, "ratio",
     "above FP8 E4M3's loss on both reference models (1.008 and 1.015)"},
    {Limit::kPerplexityNoShip, "perplexity, no-ship", 1.10, "ratio",
     "a tenth of a nat lost on every token of plain prose, more than NVFP4's loss (1.09)"},
    {Limit::kFewestTokens, "fewest tokens", 2000, "tokens", "below, a handful of bursts decides the mean"},
    {Limit::kFewestBucketTokens, "fewest tokens of a bucket", 500, "tokens",
     "below, a context bucket is shown but decides nothing"},
    {Limit::kConfidence, "confidence", 1.645, "standard errors",
     "one-sided 95 %: a limit is passed only when the estimate and its error lie on one side of it"},
    {Limit::kSignificance, "significance", 0.05, "p",
     "divided by the number of tasks asked, so that one of five is not found guilty by chance; below it undivided: a "
     "hint"},
    {Limit::kSuspectLoss, "suspect loss", 0.15, "share",
     "a loss this large that chance could still explain keeps a dtype from shipping until more items decide"},
    {Limit::kFewestSpeedSamples, "fewest speed samples", 3, "samples", "fewer have no spread to judge by"},
    {Limit::kSpeedDifference, "speed difference", 0.02, "share",
     "smaller differences between medians are not reported even when the spreads are smaller still"},
    {Limit::kClockDifference, "clock difference", kClockTolerance, "share",
     "from here on the processor's clock is named and its share of a difference taken out before judging"},
    {Limit::kSlowerMuch, "much slower", 1.25, "ratio of times",
     "a quarter more time per token is worth its memory only to those who lack memory: their decision"},
    {Limit::kGainTokens, "gain", 1.05, "ratio of tokens",
     "a dtype that holds no more tokens and runs no faster is not worth a change"},
    {Limit::kScaleClips, "scale clips", 0.5, "times the amax scale",
     "below, the largest values are cut to half or less"},
    {Limit::kScaleTooWide, "scale too wide", 64, "times the amax scale",
     "six of the range's binades unused: E4M3 then has no full precision below a 450th of the largest value"},
    {Limit::kScaleHigh, "scale high, amax unknown", 4, "",
     "range 1,792 for E4M3: keys and values of language models stay far below"},
    {Limit::kScaleLow, "scale low, amax unknown", 0.001953125, "",
     "range .875 for E4M3: keys of language models lie far above"},
};

}  // namespace

std::span<const LimitInfo> AllLimits() { return kLimits; }

double ValueOf(Limit limit) {
  const LimitInfo& info = kLimits[static_cast<size_t>(limit)];
  HAYPILE_CHECK(info.limit == limit);
  return info.value;
}

}  // namespace haypile
