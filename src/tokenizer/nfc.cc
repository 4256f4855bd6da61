#include "tokenizer/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "tokenizer/utf8.h"

namespace haypile {
namespace {

struct Decomposition {
  char32_t code_point, first, second;  // second 0: a single character
  bool composes;                       // the pair is put together again in form C
};
struct ClassRange {
  char32_t first, last;
  uint8_t combining_class;
};
#include "tokenizer/nfc_data.inc"

// Hangul syllables, by the arithmetic of The Unicode Standard, section 3.12.
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

// Below this code point every text is in form C already.
constexpr char32_t kFirstCombining = 0x300;

uint8_t CombiningClass(char32_t c) {
  if (c < kFirstCombining) return 0;
  const auto* after = std::upper_bound(std::begin(kCombiningClasses), std::end(kCombiningClasses), c,
                                       [](char32_t value, const ClassRange& range) { return value < range.first; });
  if (after == std::begin(kCombiningClasses)) return 0;
  const ClassRange& range = *(after - 1);
  return c <= range.last ? range.combining_class : 0;
}

void AppendDecomposed(char32_t c, std::vector<char32_t>* out) {
  if (c >= kSBase && c < kSBase + kSCount) {
    const char32_t index = c - kSBase;
    out->push_back(kLBase + index / (kVCount * kTCount));
    out->push_back(kVBase + index % (kVCount * kTCount) / kTCount);
    if (index % kTCount != 0) out->push_back(kTBase + index % kTCount);
    return;
  }
  const auto* found = std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), c,
                                       [](const Decomposition& row, char32_t value) { return row.code_point < value; });
  if (found == std::end(kDecompositions) || found->code_point != c) {
    out->push_back(c);
    return;
  }
  AppendDecomposed(found->first, out);
  if (found->second != 0) AppendDecomposed(found->second, out);
}

// The composite of two characters, 0 for none.
char32_t Compose(char32_t first, char32_t second) {
  if (first >= kLBase && first < kLBase + kLCount && second >= kVBase && second < kVBase + kVCount) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  const bool lv_syllable = first >= kSBase && first < kSBase + kSCount && (first - kSBase) % kTCount == 0;
  if (lv_syllable && second > kTBase && second < kTBase + kTCount) return first + (second - kTBase);
  static const auto* const kPairs = [] {
    auto* pairs = new std::unordered_map<uint64_t, char32_t>();
    for (const Decomposition& row : kDecompositions) {
      if (row.composes) pairs->emplace((static_cast<uint64_t>(row.first) << 32) | row.second, row.code_point);
    }
    return pairs;
  }();
  const auto found = kPairs->find((static_cast<uint64_t>(first) << 32) | second);
  return found == kPairs->end() ? 0 : found->second;
}

// Canonical ordering: each run of combining marks by class, stably.
void Reorder(std::vector<char32_t>* text) {
  for (auto begin = text->begin(); begin != text->end();) {
    const auto is_mark = [](char32_t c) { return CombiningClass(c) != 0; };
    begin = std::find_if(begin, text->end(), is_mark);
    const auto end = std::find_if_not(begin, text->end(), is_mark);
    std::stable_sort(begin, end, [](char32_t a, char32_t b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

void AppendComposed(const std::vector<char32_t>& text, std::string* out) {
  std::vector<char32_t> composed;
  size_t starter = 0;  // index in `composed` of the last character of class 0
  bool has_starter = false;
  for (const char32_t c : text) {
    const uint8_t combining_class = CombiningClass(c);
    if (has_starter) {
      // Blocked when something of the same or a higher class, or another starter, stands between.
      const bool adjacent = starter + 1 == composed.size();
      const uint8_t last_class = adjacent ? 0 : CombiningClass(composed.back());
      if (adjacent || last_class < combining_class) {
        if (const char32_t composite = Compose(composed[starter], c); composite != 0) {
          composed[starter] = composite;
          continue;
        }
      }
    }
    if (combining_class == 0) {
      starter = composed.size();
      has_starter = true;
    }
    composed.push_back(c);
  }
  for (const char32_t c : composed) AppendUtf8(c, out);
}

bool NeedsWork(std::string_view text) {
  // UTF-8's lead byte of U+0300 is 0xCC.
  return std::any_of(text.begin(), text.end(), [](char byte) { return static_cast<uint8_t>(byte) >= 0xCC; });
}

}  // namespace

std::string NormalizeNfc(std::string_view text) {
  if (!NeedsWork(text)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    std::vector<char32_t> decomposed;
    for (size_t position = 0; position < valid;) {
      const size_t length = Utf8CharacterLength(text.substr(position));
      AppendDecomposed(DecodeUtf8(text.substr(position), length), &decomposed);
      position += length;
    }
    Reorder(&decomposed);
    AppendComposed(decomposed, &out);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out.push_back(text[0]);
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace haypile
