#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/gguf.h"

namespace haypile {

// The numbers are GGUF's (tokenizer.ggml.token_type).
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

enum class TokenizerKind {
  kByteLevel,      // GPT-2's: text is cut by patterns, every byte is one printable character of the vocabulary
  kSentencePiece,  // spaces are written kSpaceMark, characters outside the vocabulary fall back to byte tokens
};
inline constexpr std::string_view kSpaceMark = "\u2581";

// Where a SentencePiece-style tokenizer puts a space that the text does not have.
enum class SpacePrefix {
  kNone,
  kFirst,         // at the start of the text
  kEverySegment,  // at the start of the text and after each special token
};

// One cut of the pre-tokenizer: each piece of the text so far is cut by the matches of `pattern` (PCRE2, UTF and UCP).
struct SplitStep {
  enum class Behavior {
    kIsolated,            // matches and the gaps between them are pieces
    kKeepMatches,         // gaps are dropped
    kKeepGaps,            // matches are dropped
    kMergedWithPrevious,  // a piece ends after each match
    kMergedWithNext,      // a piece begins with each match
  };
  std::string pattern;
  Behavior behavior = Behavior::kIsolated;
};

struct Merge {
  std::string left, right;
};

// A token that is looked for in the text before anything else.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool control = false;     // looked for only when special tokens are parsed
  bool lstrip = false;      // takes the white space before it
  bool rstrip = false;      // takes the white space after it
  bool normalized = false;  // looked for in the normalized text, after the others
};

// Everything a tokenizer is built from, whatever file it came from.
struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kByteLevel;
  std::vector<std::string> tokens;  // by id, in the vocabulary's own writing ("\u0120the", "\u2581the")
  std::vector<TokenType> types;     // as many as tokens
  // Exactly one of the two orders merging: ranks (first merge first) or scores by token id (highest first).
  std::vector<Merge> merges;
  std::vector<float> scores;
  std::vector<AddedToken> added_tokens;
  std::vector<SplitStep> steps;
  bool ignore_merges = false;  // a piece that is a token as a whole is not merged
  bool nfc = false;            // text is brought to Unicode normalization form C
  SpacePrefix space_prefix = SpacePrefix::kNone;
  bool space_prefix_if_missing = false;  // not put before a space that is there
  std::optional<int32_t> unknown_id;     // for bytes without a token; nothing without
  std::optional<int32_t> bos_id;
  bool add_bos = false;
  std::vector<int32_t> eos_ids;
  std::string chat_template;  // Jinja source; "" for a base model
};

Result<TokenizerSpec> TokenizerSpecFromGguf(const GgufFile& file);

// The contents of a Hugging Face folder's files; those but the first may be "".
struct HuggingFaceFiles {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::string generation_config_json;
  std::string chat_template_jinja;
};
Result<TokenizerSpec> TokenizerSpecFromHuggingFace(const HuggingFaceFiles& files);

// Adds the tokens known to end a turn or text in the supported families (<|im_end|>, <|eot_id|>, <end_of_turn>, ...)
// where the vocabulary has them as control tokens, makes `eos_ids` ascending and unique.
void CompleteEosIds(TokenizerSpec* spec);

}  // namespace haypile
