#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/gguf.h"

namespace haypile {

struct TokenizerSpec;

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// Text to token ids and back: byte-level BPE, or SentencePiece-style BPE with byte fallback. Immutable after
// construction; every method may be called from many threads at once.
class Tokenizer {
 public:
  // kUnsupported names a tokenizer kind, pre-tokenizer or feature that would not be reproduced exactly.
  static Result<std::unique_ptr<Tokenizer>> FromGguf(const GgufFile& file);
  // A Hugging Face folder: tokenizer.json, and, where present, tokenizer_config.json, chat_template.jinja,
  // generation_config.json.
  static Result<std::unique_ptr<Tokenizer>> FromFolder(const std::string& folder);
  // For tests and other sources; see tokenizer/tokenizer_spec.h. kMalformed or kUnsupported.
  static Result<std::unique_ptr<Tokenizer>> FromSpec(TokenizerSpec spec);
  ~Tokenizer();

  // Token ids of any bytes below 2 GiB (valid UTF-8 or not); no BOS is added. With `parse_special`, the text of a
  // control token becomes that token; without, it is plain text (for input that users must not steer with).
  // User-defined tokens are always recognized. A byte for which the vocabulary has no token is left out, as the models'
  // own tokenizers do (smollm2 has none for 0xC0, 0xC1, 0xF1, 0xF2, 0xF5 to 0xFF).
  std::vector<int32_t> Encode(std::string_view text, bool parse_special = true) const;

  // The exact bytes of the tokens in a row, which may begin or end within a UTF-8 character. Control tokens give their
  // text, or nothing with `skip_special`. Ids outside the vocabulary give nothing.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = true) const;
  // The bytes of one token as they stand within a sequence (a leading space is kept). "" outside the vocabulary.
  std::string_view TokenText(int32_t id) const;
  // Whether the token is a control token (<|im_end|>, <bos>, ...): its text is markup, never content.
  bool IsSpecial(int32_t id) const;
  // The token whose text in the vocabulary is exactly `text`, e.g. "<|im_end|>".
  std::optional<int32_t> TokenId(std::string_view text) const;
  int32_t vocab_size() const;

  // The token to put before a sequence, only if this model wants one (smollm2: none; gemma3: 2).
  std::optional<int32_t> bos() const;
  // Every token that ends generation (end of sequence, of turn, of message), ascending; may be empty.
  const std::vector<int32_t>& eos_ids() const;
  bool IsEos(int32_t id) const;

  // Whether the model carries a chat template; a base model does not.
  bool has_chat_template() const;
  // The messages as the model's own template writes them, to be encoded with parse_special. The text never begins with
  // the token bos() names: callers put bos() in front, as for any text. kUnsupported without a template or with one of
  // an unknown family; kInvalidArgument for a role or an order of roles that the template refuses.
  Result<std::string> ApplyChatTemplate(std::span<const ChatMessage> messages, bool add_generation_prompt) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns a stream of tokens into a stream of text that never splits a UTF-8 character: bytes of an incomplete one are
// withheld until it is complete. What Push and Finish return, joined, equals Decode of all ids.
class StreamDecoder {
 public:
  // `tokenizer` must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that this token makes certain; may be empty.
  std::string Push(int32_t id);
  // What is left at the end: bytes of a character that never became complete.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;  // at most 3 bytes: the beginning of a character
};

}  // namespace haypile
