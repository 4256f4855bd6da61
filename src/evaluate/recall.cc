#include "evaluate/recall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/check.h"
#include "evaluate/evaluation_text.h"
#include "evaluate/seeded_random.h"
#include "evaluate/statistics.h"
#include "evaluate/telling.h"

namespace haypile {
namespace {

constexpr std::string_view kColors[] = {"blue", "red", "green", "yellow", "white", "grey", "purple", "orange"};
constexpr std::string_view kPlaces[] = {"warehouse", "lighthouse", "station", "library",
                                        "harbour",   "factory",    "museum",  "bakery"};
constexpr std::string_view kLetters = "BCDFGHKLMNPRTVXZ";

struct Sentence {
  std::string text;  // begins with the blank or line end that separates it from what stands before
  int64_t tokens = 0;
};

// Cuts the prose of the texts at sentence ends; lines of tables, code and headings stay whole. Tokens are counted
// sentence by sentence: a good estimate of their number in a row, which the finished prompt then corrects.
std::vector<Sentence> SplitSentences(const TextCodec& codec) {
  std::vector<Sentence> sentences;
  for (std::string_view name : {"essays", "narrative", "almanac", "handbook"}) {
    const std::string_view text = EvaluationText(name);
    std::string sentence = "\n\n";
    for (size_t i = 0; i < text.size(); ++i) {
      const bool line_end = text[i] == '\n';
      const bool stop = (text[i] == '.' || text[i] == '?' || text[i] == '!') && i + 2 < text.size() &&
                        text[i + 1] == ' ' && std::isupper(static_cast<unsigned char>(text[i + 2]));
      if (!line_end) sentence += text[i];
      if (!line_end && !stop && i + 1 < text.size()) continue;
      if (sentence.find_first_not_of(" \n") != std::string::npos) {
        const int64_t tokens = static_cast<int64_t>(codec.encode(sentence, false).size());
        sentences.push_back({sentence, tokens});
      }
      sentence.clear();
      if (line_end) sentence += '\n';
    }
  }
  return sentences;
}

struct Planted {
  std::string subject;  // "The code of the blue warehouse is"
  std::string code;
};

Planted MakePlanted(SeededRandom& random) {
  Planted planted;
  const std::string_view color = kColors[random.Below(std::size(kColors))];
  const std::string_view place = kPlaces[random.Below(std::size(kPlaces))];
  planted.subject = fmt::format("The code of the {} {} is", color, place);
  planted.code = fmt::format("{}-{}", 1000 + random.Below(9000), kLetters[random.Below(kLetters.size())]);
  return planted;
}

// The prompt of `sentence_count` sentences from `first` on (cyclically) with the planted one at the depth.
std::string Compose(const std::vector<Sentence>& sentences, size_t first, size_t sentence_count, double depth,
                    const Planted& planted, std::string* before_planted) {
  int64_t total = 0;
  for (size_t i = 0; i < sentence_count; ++i) total += sentences[(first + i) % sentences.size()].tokens;
  std::string prompt;
  int64_t tokens = 0;
  bool is_planted = false;
  for (size_t i = 0; i <= sentence_count; ++i) {
    if (!is_planted && (i == sentence_count || static_cast<double>(tokens) >= depth * static_cast<double>(total))) {
      *before_planted = prompt;
      prompt += fmt::format("{}{} {}.", prompt.empty() ? "" : " ", planted.subject, planted.code);
      is_planted = true;
    }
    if (i == sentence_count) break;
    const Sentence& sentence = sentences[(first + i) % sentences.size()];
    prompt += sentence.text;
    tokens += sentence.tokens;
  }
  return prompt + "\n\n" + planted.subject;
}

Result<RecallItem> MakeItem(const TextCodec& codec, const std::vector<Sentence>& sentences, int64_t context_tokens,
                            double depth, int seed) {
  // The same prose, place and code at every depth of a size: depths are then compared on equal terms.
  SeededRandom random(static_cast<uint64_t>(seed) * 1000003u + static_cast<uint64_t>(context_tokens));
  random.Next();
  const Planted planted = MakePlanted(random);
  const size_t first = random.Below(sentences.size());
  const int64_t room = context_tokens - kRecallAnswerTokens;

  size_t count = 0;
  int64_t estimate = 32;  // the planted sentence and the question, about
  while (count < sentences.size() && estimate + sentences[(first + count) % sentences.size()].tokens <= room) {
    estimate += sentences[(first + count++) % sentences.size()].tokens;
  }
  if (count == sentences.size()) {
    return Error(ErrorCode::kInvalidArgument, fmt::format("recall context of {} tokens: the texts fill only {}",
                                                          context_tokens, estimate + kRecallAnswerTokens));
  }
  RecallItem item{context_tokens, depth, seed, planted.code, {}, 0};
  std::string before;
  const auto compose = [&](size_t sentence_count) {
    return codec.encode(Compose(sentences, first, sentence_count, depth, planted, &before), true);
  };
  // The estimate is within a few tokens; let one more sentence in while it fits, or take sentences away until it does.
  item.prompt = compose(count);
  while (count > 0 && static_cast<int64_t>(item.prompt.size()) > room) item.prompt = compose(--count);
  while (count + 1 < sentences.size()) {
    std::vector<int32_t> longer = compose(count + 1);
    if (static_cast<int64_t>(longer.size()) > room) break;
    item.prompt = std::move(longer);
    ++count;
  }
  compose(count);
  item.planted_at_token = static_cast<int64_t>(codec.encode(before, true).size());
  return item;
}

}  // namespace

Result<std::vector<RecallItem>> MakeRecallItems(const TextCodec& codec, const RecallOptions& options) {
  const std::vector<Sentence> sentences = SplitSentences(codec);
  std::vector<RecallItem> items;
  for (int64_t context_tokens : options.context_tokens) {
    if (context_tokens < kSmallestRecallContext) {
      return Error(ErrorCode::kInvalidArgument, fmt::format("recall context of {} tokens: the smallest is {}",
                                                            context_tokens, kSmallestRecallContext));
    }
    for (double depth : options.depths) {
      for (int seed = 0; seed < options.seeds; ++seed) {
        HAYPILE_TRY_ASSIGN(RecallItem item, MakeItem(codec, sentences, context_tokens, depth, seed));
        items.push_back(std::move(item));
      }
    }
  }
  return items;
}

bool RecallPassed(std::string_view output, std::string_view code) {
  const size_t start = output.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return false;
  output.remove_prefix(start);
  if (!output.starts_with(code)) return false;
  return output.size() == code.size() || !std::isalnum(static_cast<unsigned char>(output[code.size()]));
}

Result<bool> AskRecall(TextGenerator& generator, const TextCodec& codec, const RecallItem& item) {
  HAYPILE_TRY_ASSIGN(const std::vector<int32_t> output, generator.Greedy(item.prompt, kRecallAnswerTokens));
  return RecallPassed(codec.decode(output), item.code);
}

std::vector<RecallPoint> SummarizeRecall(const std::vector<RecallItem>& items, const std::vector<bool>& baseline,
                                         const std::vector<bool>& candidate) {
  HAYPILE_CHECK_EQ(items.size(), baseline.size());
  HAYPILE_CHECK_EQ(items.size(), candidate.size());
  std::vector<RecallPoint> points;
  std::vector<PairedCounts> counts;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto same = [&](const RecallPoint& point) {
      return point.context_tokens == items[i].context_tokens && point.depth_fraction == items[i].depth_fraction;
    };
    const auto place = std::find_if(points.begin(), points.end(), same);
    const size_t index = static_cast<size_t>(place - points.begin());
    if (place == points.end()) {
      points.emplace_back();
      points.back().depth_fraction = items[i].depth_fraction;
      points.back().context_tokens = items[i].context_tokens;
      counts.emplace_back();
    }
    counts[index].Add(baseline[i], candidate[i]);
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const Interval wilson = WilsonInterval(counts[i].candidate_passed, counts[i].total);
    points[i].passed = counts[i].candidate_passed;
    points[i].total = counts[i].total;
    points[i].wilson_low = wilson.low;
    points[i].wilson_high = wilson.high;
    points[i].baseline_passed = counts[i].baseline_passed;
    points[i].reason = WhyTellsNothing(counts[i]);
    points[i].tells_nothing = points[i].reason.has_value();
  }
  return points;
}

}  // namespace haypile
