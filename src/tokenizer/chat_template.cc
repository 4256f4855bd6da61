#include "tokenizer/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace haypile {
namespace {

constexpr std::string_view kAsciiSpace = " \t\n\v\f\r";

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kAsciiSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kAsciiSpace) - begin + 1);
}

// Text between the first `begin` and the next `end`, if both are there.
std::optional<std::string_view> Between(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t from = text.find(begin);
  if (from == std::string_view::npos) return std::nullopt;
  const size_t to = text.find(end, from + begin.size());
  if (to == std::string_view::npos) return std::nullopt;
  return text.substr(from + begin.size(), to - from - begin.size());
}

// The content of a Jinja string literal: its escapes replaced.
std::string Unescape(std::string_view literal) {
  std::string out;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out.push_back(literal[i]);
      continue;
    }
    const char escaped = literal[++i];
    out.push_back(escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped);
  }
  return out;
}

// The whole quoted literal that is `marker` with at most one space on either side, e.g. " [INST] "; `marker` if none.
std::string SpacedMarker(std::string_view source, std::string_view marker) {
  for (size_t at = source.find(marker); at != std::string_view::npos; at = source.find(marker, at + 1)) {
    size_t begin = at;
    size_t end = at + marker.size();
    if (begin > 0 && source[begin - 1] == ' ') --begin;
    if (end < source.size() && source[end] == ' ') ++end;
    if (begin == 0 || end >= source.size()) continue;
    const char quote = source[begin - 1];
    if ((quote == '\'' || quote == '"') && source[end] == quote) return std::string(source.substr(begin, end - begin));
  }
  return std::string(marker);
}

Error RefusedRoles(std::string_view family, std::string_view rule) {
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("messages do not fit this model's chat template ({}): {}", family, rule));
}

// User and assistant in turns, user first: several families' templates raise an exception otherwise.
Status CheckAlternation(std::span<const ChatMessage> turns, std::string_view family) {
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string_view expected = i % 2 == 0 ? "user" : "assistant";
    if (turns[i].role == expected) continue;
    return RefusedRoles(family, fmt::format("message {} after the system message has role '{}' where '{}' must stand",
                                            i + 1, turns[i].role, expected));
  }
  return {};
}

}  // namespace

ChatTemplate ChatTemplate::Recognize(std::string_view source) {
  ChatTemplate result;
  result.writes_bos_ = Contains(source, "bos_token");
  if (Contains(source, "<|start_header_id|>")) {
    result.family_ = Family::kLlama3;
    result.trims_ = Contains(source, "trim");
    if (Contains(source, "Cutting Knowledge Date")) {
      result.date_ = std::string(Between(source, "set date_string = \"", "\"").value_or("26 Jul 2024"));
    }
  } else if (Contains(source, "<|im_start|>")) {
    result.RecognizeChatml(source);
  } else if (Contains(source, "<start_of_turn>")) {
    result.family_ = Family::kGemma;
    result.system_place_ = Contains(source, "first_user_prefix") ? SystemPlace::kFirstUser : SystemPlace::kRefused;
  } else if (Contains(source, "[INST]") && !Contains(source, "<<SYS>>")) {
    result.RecognizeMistral(source);
  }
  return result;
}

void ChatTemplate::RecognizeChatml(std::string_view source) {
  family_ = Family::kChatml;
  leaves_out_thinking_ = Contains(source, "last_query_index") && Contains(source, "</think>");
  // The default stands in one literal from marker to marker; a message's content would break the literal.
  for (const std::string_view newline : {"\n", "\\n"}) {
    const std::string marker = fmt::format("<|im_start|>system{}", newline);
    for (size_t at = source.find(marker); at != std::string_view::npos; at = source.find(marker, at + 1)) {
      const auto text = Between(source.substr(at), marker, "<|im_end|>");
      if (!text || default_system_ || text->find_first_of("{}+") != std::string_view::npos) continue;
      default_system_ = Unescape(*text);
    }
  }
}

void ChatTemplate::RecognizeMistral(std::string_view source) {
  family_ = Family::kMistral;
  user_begin_ = SpacedMarker(source, "[INST]");
  user_end_ = SpacedMarker(source, "[/INST]");
  const bool spaced = Contains(source, "' ' + message['content']") || Contains(source, "\" \" + message[\"content\"]");
  assistant_begin_ = spaced ? " " : "";
  assistant_end_ = Contains(source, "eos_token + ' '") ? " " : "";
  trims_ = Contains(source, "message[\"content\"]|trim") || Contains(source, "message['content']|trim");
  if (Contains(source, "[SYSTEM_PROMPT]")) {
    system_place_ = SystemPlace::kOwnTurn;
    needs_system_ = Contains(source, "default_system_message");
  } else if (Contains(source, "loop.last and system_message")) {
    system_place_ = SystemPlace::kLastUser;
  } else {
    system_place_ = Contains(source, "loop.first and system_message") ? SystemPlace::kFirstUser : SystemPlace::kRefused;
  }
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                         std::string_view bos, std::string_view eos) const {
  std::string body;
  switch (family_) {
    case Family::kUnknown:
      return Error(ErrorCode::kUnsupported,
                   "the model's chat template is of no known family (chatml, llama3, mistral, gemma)");
    case Family::kChatml:
      body = RenderChatml(messages);
      if (add_generation_prompt) body += "<|im_start|>assistant\n";
      break;
    case Family::kLlama3:
      body = RenderLlama3(messages);
      if (add_generation_prompt) body += "<|start_header_id|>assistant<|end_header_id|>\n\n";
      break;
    case Family::kMistral: {
      HAYPILE_TRY_ASSIGN(body, RenderMistral(messages, eos));
      break;
    }
    case Family::kGemma: {
      HAYPILE_TRY_ASSIGN(body, RenderGemma(messages));
      if (add_generation_prompt) body += "<start_of_turn>model\n";
      break;
    }
  }
  return writes_bos_ ? std::string(bos) + body : body;
}

std::string ChatTemplate::RenderChatml(std::span<const ChatMessage> messages) const {
  std::string out;
  const auto add = [&](std::string_view role, std::string_view content) {
    out += fmt::format("<|im_start|>{}\n{}<|im_end|>\n", role, content);
  };
  if (default_system_ && !messages.empty() && messages[0].role != "system") add("system", *default_system_);
  size_t last_user = messages.size();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == "user") last_user = i;
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    std::string_view content = messages[i].content;
    const size_t thinking_end = content.rfind("</think>");
    if (leaves_out_thinking_ && messages[i].role == "assistant" && i < last_user &&
        thinking_end != std::string_view::npos) {
      content.remove_prefix(thinking_end + std::string_view("</think>").size());
      content.remove_prefix(std::min(content.find_first_not_of('\n'), content.size()));
    }
    add(messages[i].role, content);
  }
  return out;
}

std::string ChatTemplate::RenderLlama3(std::span<const ChatMessage> messages) const {
  std::string out;
  const auto add = [&](std::string_view role, std::string_view before, std::string_view content) {
    out += fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n{}{}<|eot_id|>", role, before,
                       trims_ ? Trim(content) : content);
  };
  if (!date_.empty()) {
    std::string_view system;
    if (!messages.empty() && messages[0].role == "system") {
      system = messages[0].content;
      messages = messages.subspan(1);
    }
    add("system", fmt::format("Cutting Knowledge Date: December 2023\nToday Date: {}\n\n", date_), system);
  }
  for (const ChatMessage& message : messages) add(message.role, "", message.content);
  return out;
}

Result<std::string> ChatTemplate::RenderMistral(std::span<const ChatMessage> messages, std::string_view eos) const {
  std::string out;
  std::string system;
  const bool has_system = !messages.empty() && messages[0].role == "system";
  if (has_system) {
    if (system_place_ == SystemPlace::kRefused) return RefusedRoles("mistral", "it has no system role");
    system = messages[0].content;
    messages = messages.subspan(1);
  } else if (needs_system_) {
    return Error(ErrorCode::kUnsupported,
                 "this model's chat template (mistral) dates its default system message; give a system message");
  }
  HAYPILE_TRY(CheckAlternation(messages, "mistral"));
  if (has_system && system_place_ == SystemPlace::kOwnTurn) {
    out += fmt::format("[SYSTEM_PROMPT]{}[/SYSTEM_PROMPT]", system);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& content = messages[i].content;
    if (messages[i].role == "assistant") {
      out += fmt::format("{}{}{}{}", assistant_begin_, trims_ ? Trim(content) : content, eos, assistant_end_);
      continue;
    }
    // The templates' `loop.last` is the last message of all: with a user message to answer, the last user message.
    const bool takes_system = has_system && ((system_place_ == SystemPlace::kFirstUser && i == 0) ||
                                             (system_place_ == SystemPlace::kLastUser && i + 1 == messages.size()));
    out += fmt::format("{}{}{}{}", user_begin_, takes_system ? system + "\n\n" : "", content, user_end_);
  }
  return out;
}

Result<std::string> ChatTemplate::RenderGemma(std::span<const ChatMessage> messages) const {
  std::string prefix;
  if (!messages.empty() && messages[0].role == "system") {
    if (system_place_ == SystemPlace::kRefused) return RefusedRoles("gemma", "it has no system role");
    prefix = messages[0].content + "\n\n";
    messages = messages.subspan(1);
  }
  HAYPILE_TRY(CheckAlternation(messages, "gemma"));
  std::string out;
  for (size_t i = 0; i < messages.size(); ++i) {
    out += fmt::format("<start_of_turn>{}\n{}{}<end_of_turn>\n", messages[i].role == "user" ? "user" : "model",
                       i == 0 ? prefix : "", Trim(messages[i].content));
  }
  return out;
}

}  // namespace haypile
