#include "tokenizer/hugging_face_steps.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "base/json.h"
#include "tokenizer/pre_tokenizer.h"

namespace haypile {
namespace {

Error Unsupported(std::string_view where, const Json& part) {
  constexpr size_t kShown = 200;
  return Error(ErrorCode::kUnsupported,
               fmt::format("tokenizer.json: {} {} is not supported", where, DumpJson(part, -1).substr(0, kShown)));
}

std::string StringOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool FlagOf(const Json& object, const char* key, bool otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

// What the steps said so far about how spaces and bytes are written.
struct Writing {
  bool byte_level = false;
  bool space_mark = false;
};

// Applies `read` to a part or, for a Sequence, to each of its `list_key` parts.
template <typename Read>
Status ForEachPart(const Json& part, const char* list_key, std::string_view where, const Read& read) {
  if (!part.is_object()) return Unsupported(where, part);
  if (StringOf(part, "type") != "Sequence") return read(part);
  const auto list = part.find(list_key);
  if (list == part.end() || !list->is_array()) {
    return Error(ErrorCode::kMalformed, fmt::format("tokenizer.json: {} Sequence has no '{}'", where, list_key));
  }
  for (const Json& inner : *list) HAYPILE_TRY(ForEachPart(inner, list_key, where, read));
  return {};
}

Status ReadNormalizer(const Json& part, TokenizerSpec* spec, Writing* writing) {
  const std::string type = StringOf(part, "type");
  if (type == "NFC") {
    spec->nfc = true;
    return {};
  }
  if (type == "Prepend" && StringOf(part, "prepend") == kSpaceMark) {
    spec->space_prefix = SpacePrefix::kEverySegment;
    return {};
  }
  const auto pattern = part.find("pattern");
  if (type == "Replace" && pattern != part.end() && pattern->is_object() && StringOf(*pattern, "String") == " " &&
      StringOf(part, "content") == kSpaceMark) {
    writing->space_mark = true;
    return {};
  }
  return Unsupported("normalizer", part);
}

// The text as a pattern that matches just it.
std::string Quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = static_cast<uint8_t>(c) >= 0x80 || std::isalnum(static_cast<uint8_t>(c)) || c == ' ';
    if (!plain) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

Status ReadSplit(const Json& part, TokenizerSpec* spec) {
  using Behavior = SplitStep::Behavior;
  const auto pattern = part.find("pattern");
  if (pattern == part.end() || !pattern->is_object()) return Unsupported("pre_tokenizer", part);
  SplitStep step;
  step.pattern = StringOf(*pattern, "Regex");
  if (step.pattern.empty()) step.pattern = Quoted(StringOf(*pattern, "String"));
  if (step.pattern.empty()) return Unsupported("pre_tokenizer", part);
  const std::string behavior = StringOf(part, "behavior");
  const bool invert = FlagOf(part, "invert", false);
  if (behavior == "Isolated") {
    step.behavior = Behavior::kIsolated;
  } else if (behavior == "Removed") {
    step.behavior = invert ? Behavior::kKeepMatches : Behavior::kKeepGaps;
  } else if (behavior == "MergedWithPrevious" && !invert) {
    step.behavior = Behavior::kMergedWithPrevious;
  } else if (behavior == "MergedWithNext" && !invert) {
    step.behavior = Behavior::kMergedWithNext;
  } else {
    return Unsupported("pre_tokenizer", part);
  }
  spec->steps.push_back(std::move(step));
  return {};
}

Status ReadMetaspace(const Json& part, TokenizerSpec* spec, Writing* writing) {
  if (StringOf(part, "replacement") != kSpaceMark) return Unsupported("pre_tokenizer", part);
  writing->space_mark = true;
  std::string scheme = StringOf(part, "prepend_scheme");
  if (scheme.empty()) scheme = FlagOf(part, "add_prefix_space", true) ? "always" : "never";
  if (scheme == "always") {
    spec->space_prefix = SpacePrefix::kEverySegment;
  } else if (scheme == "first") {
    spec->space_prefix = SpacePrefix::kFirst;
  } else if (scheme != "never") {
    return Unsupported("pre_tokenizer", part);
  }
  spec->space_prefix_if_missing = true;
  if (FlagOf(part, "split", true)) {
    spec->steps.push_back({std::string(kSpaceMark), SplitStep::Behavior::kMergedWithNext});
  }
  return {};
}

Status ReadPreTokenizer(const Json& part, TokenizerSpec* spec, Writing* writing) {
  const std::string type = StringOf(part, "type");
  if (type == "ByteLevel") {
    if (FlagOf(part, "add_prefix_space", true)) return Unsupported("pre_tokenizer", part);
    writing->byte_level = true;
    if (FlagOf(part, "use_regex", true)) spec->steps.push_back({std::string(Gpt2Pattern()), {}});
    return {};
  }
  // After ByteLevel the text is in the byte alphabet, which later patterns would see.
  if (writing->byte_level) return Unsupported("pre_tokenizer after ByteLevel", part);
  if (type == "Digits") {
    spec->steps.push_back({FlagOf(part, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)", {}});
    return {};
  }
  if (type == "Split") return ReadSplit(part, spec);
  if (type == "Metaspace") return ReadMetaspace(part, spec, writing);
  return Unsupported("pre_tokenizer", part);
}

}  // namespace

Status ReadHuggingFaceSteps(const Json& root, TokenizerSpec* spec) {
  Writing writing;
  if (const auto part = root.find("normalizer"); part != root.end() && !part->is_null()) {
    HAYPILE_TRY(ForEachPart(*part, "normalizers", "normalizer",
                            [&](const Json& inner) { return ReadNormalizer(inner, spec, &writing); }));
  }
  if (const auto part = root.find("pre_tokenizer"); part != root.end() && !part->is_null()) {
    HAYPILE_TRY(ForEachPart(*part, "pretokenizers", "pre_tokenizer",
                            [&](const Json& inner) { return ReadPreTokenizer(inner, spec, &writing); }));
  }
  if (writing.byte_level == writing.space_mark) {
    return Error(ErrorCode::kUnsupported,
                 "tokenizer.json: expected either a ByteLevel pre_tokenizer, or spaces replaced by U+2581");
  }
  spec->kind = writing.byte_level ? TokenizerKind::kByteLevel : TokenizerKind::kSentencePiece;
  return {};
}

}  // namespace haypile
