#include "tokenizer/pre_tokenizer.h"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "tokenizer/utf8.h"

namespace haypile {
namespace {

// PCRE2's \s adds U+180E to White_Space; its property by name does not.
std::string WithUnicodeWhiteSpace(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out.push_back(pattern[i]);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += "\\p{White_Space}";
    } else if (escaped == 'S') {
      out += "\\P{White_Space}";
    } else {
      out.push_back('\\');
      out.push_back(escaped);
    }
  }
  return out;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

struct Span {
  size_t begin, end;
};

}  // namespace

class PreTokenizer::Regex {
 public:
  static Result<Regex> Compile(const std::string& pattern) {
    const std::string translated = WithUnicodeWhiteSpace(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Regex regex;
    regex.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
    if (!regex.code_) {
      PCRE2_UCHAR message[256] = {};
      pcre2_get_error_message(error, message, sizeof(message));
      return Error(ErrorCode::kMalformed, fmt::format("pre-tokenizer pattern '{}' does not compile: {} at offset {}",
                                                      translated, reinterpret_cast<const char*>(message), offset));
    }
    // Where there is no JIT, matching interprets.
    pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE);
    return regex;
  }

  // All non-empty matches in well-formed `subject`, left to right; false on a match limit.
  bool FindAll(std::string_view subject, std::vector<Span>* spans) const {
    const std::unique_ptr<pcre2_match_data, FreeMatchData> data(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    HAYPILE_CHECK(data != nullptr);
    const auto* bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
    size_t position = 0;
    while (position < subject.size()) {
      int count = pcre2_match(code_.get(), bytes, subject.size(), position, PCRE2_NO_UTF_CHECK, data.get(), nullptr);
      if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
        count = pcre2_match(code_.get(), bytes, subject.size(), position, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(),
                            nullptr);
      }
      if (count == PCRE2_ERROR_NOMATCH) return true;
      if (count < 0) return false;
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
      // \K can put the begin before `position` or after the end; such a match cuts nothing.
      if (bounds[1] > bounds[0] && bounds[0] >= position) {
        spans->push_back({bounds[0], bounds[1]});
        position = bounds[1];
      } else {
        const size_t at = std::max<size_t>(position, bounds[1]);
        if (at >= subject.size()) return true;
        position = at + Utf8CharacterLength(subject.substr(at));
      }
    }
    return true;
  }

 private:
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

struct PreTokenizer::Step {
  Regex regex;
  SplitStep::Behavior behavior;

  void Cut(std::string_view piece, std::vector<std::string_view>* out) const;
};

namespace {

void PushNonEmpty(std::string_view piece, size_t begin, size_t end, std::vector<std::string_view>* out) {
  if (end > begin) out->push_back(piece.substr(begin, end - begin));
}

}  // namespace

void PreTokenizer::Step::Cut(std::string_view piece, std::vector<std::string_view>* out) const {
  using Behavior = SplitStep::Behavior;
  std::vector<Span> matches;
  if (!regex.FindAll(piece, &matches)) {
    out->push_back(piece);
    return;
  }
  size_t done = 0;  // everything before is cut
  for (const Span& match : matches) {
    switch (behavior) {
      case Behavior::kIsolated:
        PushNonEmpty(piece, done, match.begin, out);
        PushNonEmpty(piece, match.begin, match.end, out);
        done = match.end;
        break;
      case Behavior::kKeepMatches:
        PushNonEmpty(piece, match.begin, match.end, out);
        done = match.end;
        break;
      case Behavior::kKeepGaps:
        PushNonEmpty(piece, done, match.begin, out);
        done = match.end;
        break;
      case Behavior::kMergedWithPrevious:
        PushNonEmpty(piece, done, match.end, out);
        done = match.end;
        break;
      case Behavior::kMergedWithNext:
        PushNonEmpty(piece, done, match.begin, out);
        done = match.begin;
        break;
    }
  }
  if (behavior != Behavior::kKeepMatches) PushNonEmpty(piece, done, piece.size(), out);
}

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Create(const std::vector<SplitStep>& steps) {
  PreTokenizer result;
  for (const SplitStep& step : steps) {
    HAYPILE_TRY_ASSIGN(Regex regex, Regex::Compile(step.pattern));
    result.steps_.push_back(Step{std::move(regex), step.behavior});
  }
  return result;
}

std::vector<std::string_view> PreTokenizer::Split(std::string_view text) const {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    if (valid > 0) {
      std::vector<std::string_view> pieces = {text.substr(0, valid)};
      for (const Step& step : steps_) {
        std::vector<std::string_view> cut;
        for (const std::string_view piece : pieces) step.Cut(piece, &cut);
        pieces.swap(cut);
      }
      out.insert(out.end(), pieces.begin(), pieces.end());
      text.remove_prefix(valid);
    }
    size_t invalid = 0;
    while (invalid < text.size() && Utf8CharacterLength(text.substr(invalid)) == 0) ++invalid;
    if (invalid > 0) out.push_back(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
  return out;
}

}  // namespace haypile
