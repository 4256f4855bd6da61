#include "planner/engine_support_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace haypile {
namespace {

std::optional<int> WholeNumber(std::string_view text) {
  int value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

struct SmRange {
  int least = 0, most = 0;
};

// "sm90", "sm9x", "sm10x", "sm80+", "sm80-88".
std::optional<SmRange> SmOf(std::string_view word) {
  constexpr int kAnyLater = 9999;
  if (!word.starts_with("sm")) return std::nullopt;
  word.remove_prefix(2);
  if (word.ends_with('x')) {
    const auto family = WholeNumber(word.substr(0, word.size() - 1));
    return family ? std::optional<SmRange>({*family * 10, *family * 10 + 9}) : std::nullopt;
  }
  if (word.ends_with('+')) {
    const auto least = WholeNumber(word.substr(0, word.size() - 1));
    return least ? std::optional<SmRange>({*least, kAnyLater}) : std::nullopt;
  }
  const size_t dash = word.find('-');
  const auto least = WholeNumber(word.substr(0, dash));
  const auto most = dash == std::string_view::npos ? least : WholeNumber(word.substr(dash + 1));
  return least && most ? std::optional<SmRange>({*least, *most}) : std::nullopt;
}

// Numbers of a version, as many as are written: "0.18" is a bound on two.
std::optional<std::vector<int>> NumbersOf(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty()) {
    const size_t dot = std::min(text.find('.'), text.size());
    const auto number = WholeNumber(text.substr(0, dot));
    if (!number || numbers.size() == 3) return std::nullopt;
    numbers.push_back(*number);
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return numbers.empty() ? std::nullopt : std::optional(numbers);
}

// Below 0, 0, above 0: the version against the written numbers alone.
int Compare(const EngineVersion& version, const std::vector<int>& numbers) {
  const int parts[] = {version.major, version.minor, version.patch};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (parts[i] != numbers[i]) return parts[i] < numbers[i] ? -1 : 1;
  }
  return 0;
}

struct VersionRange {
  std::optional<std::vector<int>> least, most;
};

std::optional<VersionRange> RangeOf(std::string_view word) {
  if (word == "any") return VersionRange{};
  VersionRange range;
  const size_t dots = word.find("..");
  if (word.ends_with('+')) {
    range.least = NumbersOf(word.substr(0, word.size() - 1));
    return range.least ? std::optional(range) : std::nullopt;
  }
  if (dots == std::string_view::npos) {
    range.least = range.most = NumbersOf(word);
    return range.least ? std::optional(range) : std::nullopt;
  }
  if (dots > 0) {
    range.least = NumbersOf(word.substr(0, dots));
    if (!range.least) return std::nullopt;
  }
  range.most = NumbersOf(word.substr(dots + 2));
  return range.most ? std::optional(range) : std::nullopt;
}

std::string Capability(int sm) { return fmt::format("{}.{}", sm / 10, sm % 10); }

// One word, of one device that is known.
bool DeviceWordHolds(std::string_view word, DeviceKind device, const GpuSpec& gpu) {
  if (word == "any") return true;
  if (device == DeviceKind::kCpu) return word == "cpu";
  if (word == "gpu") return true;
  if (word == "cuda") return gpu.sm > 0;
  if (word == "amd") return gpu.vendor == "amd";
  if (word == "gaudi") return gpu.architecture.starts_with("Gaudi");
  if (word.starts_with("gfx")) return gpu.architecture == word;
  const auto range = SmOf(word);
  return range && gpu.sm >= range->least && gpu.sm <= range->most && gpu.sm > 0;
}

bool IsPowerOfTwo(int value) { return value > 0 && (value & (value - 1)) == 0; }

bool HeadWordIsKnown(std::string_view word) {
  if (word.starts_with('!')) word.remove_prefix(1);
  if (word == "pow2") return true;
  for (const std::string_view sign : {"<=", ">=", "%"}) {
    if (word.starts_with(sign)) return WholeNumber(word.substr(sign.size())).has_value();
  }
  while (!word.empty()) {
    const size_t comma = std::min(word.find(','), word.size());
    if (!WholeNumber(word.substr(0, comma))) return false;
    word.remove_prefix(std::min(comma + 1, word.size()));
  }
  return true;
}

}  // namespace

std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool HasWord(std::string_view text, std::string_view word) {
  const auto words = WordsOf(text);
  return std::find(words.begin(), words.end(), word) != words.end();
}

Match DeviceMatches(std::string_view words, DeviceKind device, const std::optional<GpuSpec>& gpu) {
  const auto all = WordsOf(words);
  if (device == DeviceKind::kGpu && !gpu) {
    for (const std::string_view word : all) {
      if (word == "any" || word == "gpu") return Match::kYes;
    }
    return std::any_of(all.begin(), all.end(), [](std::string_view word) { return word != "cpu"; }) ? Match::kUnknown
                                                                                                    : Match::kNo;
  }
  const GpuSpec none;
  const bool holds = std::any_of(
      all.begin(), all.end(), [&](std::string_view word) { return DeviceWordHolds(word, device, gpu ? *gpu : none); });
  return holds ? Match::kYes : Match::kNo;
}

bool VersionMatches(std::string_view words, const EngineVersion& version) {
  const auto all = WordsOf(words);
  return all.empty() || std::any_of(all.begin(), all.end(), [&](std::string_view word) {
           const auto range = RangeOf(word);
           return range && (!range->least || Compare(version, *range->least) >= 0) &&
                  (!range->most || Compare(version, *range->most) <= 0);
         });
}

bool HeadWordHolds(std::string_view word, int head_dim) {
  if (word.starts_with('!')) return !HeadWordHolds(word.substr(1), head_dim);
  if (word == "pow2") return IsPowerOfTwo(head_dim);
  if (word.starts_with("<=")) return head_dim <= WholeNumber(word.substr(2)).value_or(0);
  if (word.starts_with(">=")) return head_dim >= WholeNumber(word.substr(2)).value_or(0);
  if (word.starts_with('%')) {
    const int block = WholeNumber(word.substr(1)).value_or(0);
    return block > 0 && head_dim % block == 0;
  }
  while (!word.empty()) {
    const size_t comma = std::min(word.find(','), word.size());
    if (WholeNumber(word.substr(0, comma)) == head_dim) return true;
    word.remove_prefix(std::min(comma + 1, word.size()));
  }
  return false;
}

bool HeadsMatch(std::string_view words, const std::set<int>& head_dims) {
  for (const std::string_view word : WordsOf(words)) {
    if (!std::all_of(head_dims.begin(), head_dims.end(), [&](int dim) { return HeadWordHolds(word, dim); })) {
      return false;
    }
  }
  return true;
}

std::optional<int> HeadWith(std::string_view words, const std::set<int>& head_dims) {
  for (const std::string_view word : WordsOf(words)) {
    for (const int dim : head_dims) {
      if (HeadWordHolds(word, dim)) return dim;
    }
  }
  return std::nullopt;
}

bool DeviceWordsAreKnown(std::string_view words) {
  const auto all = WordsOf(words);
  return !all.empty() && std::all_of(all.begin(), all.end(), [](std::string_view word) {
    return word == "any" || word == "cpu" || word == "gpu" || word == "cuda" || word == "amd" || word == "gaudi" ||
           word.starts_with("gfx") || SmOf(word).has_value();
  });
}

bool VersionWordsAreKnown(std::string_view words) {
  const auto all = WordsOf(words);
  return std::all_of(all.begin(), all.end(), [](std::string_view word) { return RangeOf(word).has_value(); });
}

bool HeadWordsAreKnown(std::string_view words) {
  const auto all = WordsOf(words);
  return std::all_of(all.begin(), all.end(), HeadWordIsKnown);
}

std::string DeviceWordsText(std::string_view words) {
  constexpr int kNoEnd = 9000;
  std::string text;
  for (const std::string_view word : WordsOf(words)) {
    std::string part;
    if (word == "any" || word == "gpu") {
      part = word == "any" ? "any device" : "any GPU";
    } else if (word == "cpu") {
      part = "the CPU build";
    } else if (word == "cuda") {
      part = "a CUDA device";
    } else if (word == "amd") {
      part = "an AMD GPU";
    } else if (word == "gaudi") {
      part = "Gaudi";
    } else if (const auto range = SmOf(word); range && word.ends_with('x')) {
      part = fmt::format("SM{}x", range->least / 10);
    } else if (range && range->most > kNoEnd) {
      part = fmt::format("SM{} or newer", range->least);
    } else if (range) {
      part = range->least == range->most ? fmt::format("SM{}", range->least)
                                         : Capability(range->least) + " to " + Capability(range->most);
    } else {
      part = std::string(word);
    }
    text += (text.empty() ? "" : " or ") + part;
  }
  return text;
}

}  // namespace haypile
