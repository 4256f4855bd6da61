#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "tokenizer/bpe.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/nfc.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_matcher.h"
#include "tokenizer/tokenizer_spec.h"
#include "tokenizer/utf8.h"

namespace haypile {
namespace {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t found = std::min(text.find(from, position), text.size());
    out.append(text, position, found - position);
    if (found < text.size()) out.append(to);
    position = found + from.size();
  }
  return out;
}

bool IsByteToken(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token[5] == '>' && std::isxdigit(uint8_t(token[3])) &&
         std::isxdigit(uint8_t(token[4]));
}

Status CheckId(std::optional<int32_t> id, size_t size, std::string_view what) {
  if (!id || (*id >= 0 && static_cast<size_t>(*id) < size)) return {};
  return Error(ErrorCode::kMalformed, fmt::format("{} token id {} is outside the vocabulary of {}", what, *id, size));
}

Status Validate(const TokenizerSpec& spec) {
  const size_t size = spec.tokens.size();
  if (size == 0) return Error(ErrorCode::kMalformed, "the vocabulary is empty");
  if (size > (size_t{1} << 30)) return Error(ErrorCode::kMalformed, fmt::format("{} tokens are too many", size));
  if (spec.types.size() != size) {
    return Error(ErrorCode::kMalformed, fmt::format("{} token types for {} tokens", spec.types.size(), size));
  }
  if (!spec.scores.empty() && spec.scores.size() != size) {
    return Error(ErrorCode::kMalformed, fmt::format("{} token scores for {} tokens", spec.scores.size(), size));
  }
  for (size_t id = 0; id < size; ++id) {
    if (spec.types[id] == TokenType::kByte && !IsByteToken(spec.tokens[id])) {
      return Error(ErrorCode::kMalformed,
                   fmt::format("byte token {} is '{}', expected <0x00> to <0xFF>", id, spec.tokens[id]));
    }
    if (!spec.scores.empty() && spec.scores[id] != spec.scores[id]) {
      return Error(ErrorCode::kMalformed, fmt::format("the score of token {} is not a number", id));
    }
  }
  HAYPILE_TRY(CheckId(spec.bos_id, size, "begin-of-sequence"));
  HAYPILE_TRY(CheckId(spec.unknown_id, size, "unknown"));
  for (const int32_t id : spec.eos_ids) HAYPILE_TRY(CheckId(id, size, "end-of-sequence"));
  for (const AddedToken& token : spec.added_tokens) HAYPILE_TRY(CheckId(token.id, size, "added"));
  return {};
}

// The bytes that a token stands for.
std::string BytesOf(const TokenizerSpec& spec, size_t id) {
  const std::string& token = spec.tokens[id];
  const TokenType type = spec.types[id];
  if (type == TokenType::kByte) return std::string(1, static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16)));
  if (type == TokenType::kControl || type == TokenType::kUnknown) return token;
  if (spec.kind == TokenizerKind::kSentencePiece) return ReplaceAll(token, kSpaceMark, " ");
  if (type == TokenType::kUserDefined) return token;
  return BytesFromAlphabet(token).value_or(token);
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec from, Bpe merging, PreTokenizer cutting)
      : spec(std::move(from)), bpe(std::move(merging)), pre_tokenizer(std::move(cutting)) {}

  void EncodeText(std::string_view text, bool at_start, bool parse_special, std::vector<int32_t>* ids) const;
  void EncodePlain(std::string_view text, bool at_start, std::vector<int32_t>* ids) const;

  TokenizerSpec spec;  // `tokens` must not move: bpe and index hold views into it
  Bpe bpe;
  PreTokenizer pre_tokenizer;
  TokenMatcher raw_tokens, normalized_tokens;
  bool has_normalized_tokens = false;
  std::vector<std::string> bytes;  // by id
  TokenIndex index;
  ChatTemplate chat_template;
};

void Tokenizer::Impl::EncodeText(std::string_view text, bool at_start, bool parse_special,
                                 std::vector<int32_t>* ids) const {
  std::string normalized;
  if (spec.nfc) {
    normalized = NormalizeNfc(text);
    text = normalized;
  }
  if (!has_normalized_tokens) {
    EncodePlain(text, at_start, ids);
    return;
  }
  for (const TokenMatcher::Segment& segment : normalized_tokens.Split(text, parse_special)) {
    if (segment.id >= 0) {
      ids->push_back(segment.id);
    } else {
      EncodePlain(segment.text, at_start && segment.text.data() == text.data(), ids);
    }
  }
}

void Tokenizer::Impl::EncodePlain(std::string_view text, bool at_start, std::vector<int32_t>* ids) const {
  std::string marked;
  if (spec.kind == TokenizerKind::kSentencePiece) {
    const bool wanted =
        spec.space_prefix == SpacePrefix::kEverySegment || (spec.space_prefix == SpacePrefix::kFirst && at_start);
    const bool there = text.starts_with(' ') || text.starts_with(kSpaceMark);
    if (wanted && !(spec.space_prefix_if_missing && there)) marked = kSpaceMark;
    marked += ReplaceAll(text, " ", kSpaceMark);
    text = marked;
  }
  if (spec.steps.empty()) {
    bpe.Encode(text, ids);
    return;
  }
  for (const std::string_view piece : pre_tokenizer.Split(text)) bpe.Encode(piece, ids);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::FromSpec(TokenizerSpec spec) {
  HAYPILE_TRY(Validate(spec));
  HAYPILE_TRY_ASSIGN(PreTokenizer pre_tokenizer, PreTokenizer::Create(spec.steps));
  // Moving a vector keeps its elements where they are, so the views that Bpe takes stay good.
  HAYPILE_TRY_ASSIGN(Bpe bpe, Bpe::Create(spec));
  auto impl = std::make_unique<Impl>(std::move(spec), std::move(bpe), std::move(pre_tokenizer));
  const TokenizerSpec& kept = impl->spec;
  impl->bytes.reserve(kept.tokens.size());
  impl->index.reserve(kept.tokens.size());
  for (size_t id = 0; id < kept.tokens.size(); ++id) {
    impl->bytes.push_back(BytesOf(kept, id));
    if (!kept.tokens[id].empty()) impl->index.try_emplace(kept.tokens[id], static_cast<int32_t>(id));
  }
  for (const AddedToken& token : kept.added_tokens) {
    const bool normalized = token.normalized && kept.nfc;
    AddedToken added = token;
    if (normalized) added.content = NormalizeNfc(token.content);
    (normalized ? impl->normalized_tokens : impl->raw_tokens).Add(added);
    impl->has_normalized_tokens |= normalized;
  }
  impl->chat_template = ChatTemplate::Recognize(kept.chat_template);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool parse_special) const {
  std::vector<int32_t> ids;
  for (const TokenMatcher::Segment& segment : impl_->raw_tokens.Split(text, parse_special)) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else {
      impl_->EncodeText(segment.text, segment.text.data() == text.data(), parse_special, &ids);
    }
  }
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  for (const int32_t id : ids) {
    if (!skip_special || !IsSpecial(id)) out += TokenText(id);
  }
  return out;
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return impl_->bytes[id];
}

bool Tokenizer::IsSpecial(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return false;
  const TokenType type = impl_->spec.types[id];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view text) const {
  const auto found = impl_->index.find(text);
  if (found == impl_->index.end()) return std::nullopt;
  return found->second;
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->spec.tokens.size()); }

std::optional<int32_t> Tokenizer::bos() const { return impl_->spec.add_bos ? impl_->spec.bos_id : std::nullopt; }

const std::vector<int32_t>& Tokenizer::eos_ids() const { return impl_->spec.eos_ids; }

bool Tokenizer::IsEos(int32_t id) const {
  return std::binary_search(impl_->spec.eos_ids.begin(), impl_->spec.eos_ids.end(), id);
}

bool Tokenizer::has_chat_template() const { return !impl_->spec.chat_template.empty(); }

Result<std::string> Tokenizer::ApplyChatTemplate(std::span<const ChatMessage> messages,
                                                 bool add_generation_prompt) const {
  if (!has_chat_template()) {
    return Error(ErrorCode::kUnsupported, "the model carries no chat template: it is a base model, give it plain text");
  }
  const TokenizerSpec& spec = impl_->spec;
  const std::string_view bos_text = !spec.add_bos && spec.bos_id ? TokenText(*spec.bos_id) : std::string_view();
  const std::string_view eos_text = spec.eos_ids.empty() ? std::string_view() : TokenText(spec.eos_ids.front());
  return impl_->chat_template.Render(messages, add_generation_prompt, bos_text, eos_text);
}

std::string StreamDecoder::Push(int32_t id) {
  if (!skip_special_ || !tokenizer_->IsSpecial(id)) pending_ += tokenizer_->TokenText(id);
  const size_t withheld = IncompleteUtf8Suffix(pending_);
  std::string out = pending_.substr(0, pending_.size() - withheld);
  pending_.erase(0, out.size());
  return out;
}

std::string StreamDecoder::Finish() { return std::exchange(pending_, {}); }

void CompleteEosIds(TokenizerSpec* spec) {
  static constexpr std::string_view kNames[] = {"<|im_end|>", "<|endoftext|>",   "<|eot_id|>",
                                                "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>"};
  for (size_t id = 0; id < spec->tokens.size() && id < spec->types.size(); ++id) {
    if (spec->types[id] != TokenType::kControl) continue;
    const bool known = std::find(std::begin(kNames), std::end(kNames), spec->tokens[id]) != std::end(kNames);
    if (known) spec->eos_ids.push_back(static_cast<int32_t>(id));
  }
  std::sort(spec->eos_ids.begin(), spec->eos_ids.end());
  spec->eos_ids.erase(std::unique(spec->eos_ids.begin(), spec->eos_ids.end()), spec->eos_ids.end());
}

}  // namespace haypile
