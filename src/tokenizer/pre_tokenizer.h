#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {

// Cuts text into the pieces within which merging happens, by a sequence of regular expressions. The one place that
// calls PCRE2 (UTF, UCP, JIT where the machine has it). `\s` and `\S` mean Unicode's White_Space property, as in the
// libraries these patterns were written for. Immutable; safe to use from many threads.
class PreTokenizer {
 public:
  // kMalformed names a pattern that does not compile, with the offset.
  static Result<PreTokenizer> Create(const std::vector<SplitStep>& steps);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Pieces in order, none empty, views into `text`. A run of bytes that are not UTF-8 is a piece of its own. A piece on
  // which a pattern exceeds PCRE2's match limit stays whole (no known pattern can; a foreign tokenizer.json could).
  std::vector<std::string_view> Split(std::string_view text) const;

 private:
  class Regex;
  struct Step;
  PreTokenizer();
  std::vector<Step> steps_;
};

// The steps of a GGUF `tokenizer.ggml.pre` name, and what else the name implies. kUnsupported names an unknown one.
struct NamedPreTokenizer {
  std::vector<SplitStep> steps;
  bool ignore_merges = false;
  bool add_bos = false;  // unless the file says otherwise
  bool nfc = false;
};
Result<NamedPreTokenizer> FindPreTokenizer(std::string_view name);

// GPT-2's pattern, which tokenizer.json's ByteLevel step stands for.
std::string_view Gpt2Pattern();

}  // namespace haypile
