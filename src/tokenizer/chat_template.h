#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace haypile {

// A model's chat template (Jinja source), recognized as one of the families' and rendered by rule rather than
// interpreted. docs: the families' published templates.
//   chatml   SmolLM2, Qwen2, Qwen2.5, Qwen3; with the template's own default system message
//   llama3   Llama 3, 3.1, 3.2, 3.3; with the date the template names, so that a prompt is the same every day
//   mistral  [INST] in the variants of 7B v0.1 to v0.3, Nemo and Small 2501 on
//   gemma    Gemma 1, 2 (no system role) and 3 (system text goes before the first user message)
class ChatTemplate {
 public:
  static ChatTemplate Recognize(std::string_view source);

  // `bos` and `eos` are the texts of those tokens ("" for none). The result begins with `bos` where the template
  // writes it. kUnsupported for a family not recognized; kInvalidArgument where the template raises an exception.
  Result<std::string> Render(std::span<const ChatMessage> messages, bool add_generation_prompt, std::string_view bos,
                             std::string_view eos) const;

 private:
  enum class Family { kUnknown, kChatml, kLlama3, kMistral, kGemma };

  void RecognizeMistral(std::string_view source);
  void RecognizeChatml(std::string_view source);
  std::string RenderChatml(std::span<const ChatMessage> messages) const;
  std::string RenderLlama3(std::span<const ChatMessage> messages) const;
  Result<std::string> RenderMistral(std::span<const ChatMessage> messages, std::string_view eos) const;
  Result<std::string> RenderGemma(std::span<const ChatMessage> messages) const;

  Family family_ = Family::kUnknown;
  bool writes_bos_ = false;
  bool trims_ = false;                         // content is stripped of white space
  std::optional<std::string> default_system_;  // chatml: said when the messages begin with no system message
  bool leaves_out_thinking_ = false;           // Qwen3: the reasoning of earlier turns
  std::string date_;                           // llama3.1 on: in the system header; "" for no such header
  // Where a system message goes if the family has no role for it.
  enum class SystemPlace { kRefused, kOwnTurn, kFirstUser, kLastUser };
  SystemPlace system_place_ = SystemPlace::kOwnTurn;
  // Mistral's markers with the spaces that the variant puts around them.
  std::string user_begin_, user_end_, assistant_begin_, assistant_end_;
  bool needs_system_ = false;  // mistral v7: the template has a dated system message of its own
};

}  // namespace haypile
