#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace haypile {

// What the evaluator needs of an engine: one model with one KV dtype that continues a prompt greedily.
class TextGenerator {
 public:
  virtual ~TextGenerator() = default;

  // Up to `max_new_tokens` tokens that follow `prompt`, each the most likely one; fewer when the model ends the text
  // (the token that ends it is not returned). Independent of earlier calls. kOutOfBudget when the prompt and the new
  // tokens do not fit the context or the pool.
  virtual Result<std::vector<int32_t>> Greedy(std::span<const int32_t> prompt, int max_new_tokens) = 0;

  // Continues several prompts, in order; an engine that batches sequences may override it. The first error ends it.
  virtual Result<std::vector<std::vector<int32_t>>> GreedyBatch(std::span<const std::vector<int32_t>> prompts,
                                                                int max_new_tokens);
};

// The tokenizer as the evaluator sees it; TokenizerCodec() in evaluate/tokenizer_codec.h makes one.
struct TextCodec {
  // Tokens of a plain prompt; with `start`, the model's first token (BOS) in front if it wants one.
  std::function<std::vector<int32_t>(std::string_view text, bool start)> encode;
  // The bytes of generated tokens, without control tokens.
  std::function<std::string(std::span<const int32_t>)> decode;
  // Tokens of a conversation with this one user message, up to where the model answers. Empty for a base model.
  std::function<Result<std::vector<int32_t>>(std::string_view user_message)> encode_chat;

  bool has_chat() const { return static_cast<bool>(encode_chat); }
};

}  // namespace haypile
