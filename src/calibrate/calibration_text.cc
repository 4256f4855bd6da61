#include "calibrate/calibration_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/file.h"
#include "base/json.h"
#include "evaluate/evaluation_text.h"

namespace haypile {
namespace {

// A piece shorter than this is not worth a sequence, unless it is all there is.
constexpr size_t kShortestPiece = 16;

using Segments = std::vector<CalibrationSegment>;

Segments PiecesOf(const Session& session, const std::string& name, std::string_view text, int64_t segment_tokens) {
  const std::vector<int32_t> tokens = session.tokenizer->Encode(text);
  const auto bos = session.tokenizer->bos();
  const size_t room = static_cast<size_t>(segment_tokens) - (bos ? 1 : 0);
  Segments pieces;
  for (size_t at = 0; at < tokens.size(); at += room) {
    const size_t end = std::min(at + room, tokens.size());
    if (at > 0 && end - at < kShortestPiece) break;
    CalibrationSegment piece{fmt::format("{}, piece {}", name, pieces.size() + 1), {}};
    if (bos) piece.tokens.push_back(*bos);
    piece.tokens.insert(piece.tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
                        tokens.begin() + static_cast<std::ptrdiff_t>(end));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Segments BuiltInPieces(const Session& session, int64_t segment_tokens) {
  std::vector<Segments> texts;
  size_t most = 0;
  for (const std::string_view name : EvaluationTextNames()) {
    texts.push_back(PiecesOf(session, std::string(name), EvaluationText(name), segment_tokens));
    most = std::max(most, texts.back().size());
  }
  Segments in_turn;
  for (size_t i = 0; i < most; ++i) {
    for (Segments& text : texts) {
      if (i < text.size()) in_turn.push_back(std::move(text[i]));
    }
  }
  return in_turn;
}

std::string RoleOf(const std::string& role) {
  if (role == "human") return "user";
  if (role == "gpt") return "assistant";
  return role;
}

Result<std::vector<ChatMessage>> ChatFrom(const std::string& line) {
  HAYPILE_TRY_ASSIGN(const Json json, ParseJson(line));
  const bool shared_form = json.is_object() && json.contains("conversations");
  const char* list_key = shared_form ? "conversations" : "messages";
  const Json& list = json.is_object() && json.contains(list_key) ? json[list_key] : json;
  if (!list.is_array() || list.empty()) {
    return Error(ErrorCode::kMalformed, R"(expected {"messages": [{"role": ..., "content": ...}, ...]})");
  }
  const char* role_key = shared_form ? "from" : "role";
  const char* text_key = shared_form ? "value" : "content";
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& item = list[i];
    for (const char* key : {role_key, text_key}) {
      if (item.is_object() && item.contains(key) && item[key].is_string()) continue;
      return Error(ErrorCode::kMalformed, fmt::format("message {}: expected a text in '{}'", i, key));
    }
    messages.push_back({RoleOf(item[role_key].get<std::string>()), item[text_key].get<std::string>()});
  }
  return messages;
}

Result<CalibrationSegment> SegmentOfChat(const Session& session, const std::string& line) {
  HAYPILE_TRY_ASSIGN(const std::vector<ChatMessage> messages, ChatFrom(line));
  HAYPILE_TRY_ASSIGN(const std::string text, session.tokenizer->ApplyChatTemplate(messages, false));
  return CalibrationSegment{"", session.EncodeWithBos(text)};
}

Result<Segments> Chats(const Session& session, const std::string& path, int64_t segment_tokens, int64_t* left_out) {
  HAYPILE_TRY_ASSIGN(const std::string content, ReadFile(path));
  const std::string name = std::filesystem::path(path).filename().string();
  Segments chats;
  int number = 0;
  for (size_t at = 0; at < content.size(); ++number) {
    const size_t end = std::min(content.find('\n', at), content.size());
    const std::string line = content.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto chat = SegmentOfChat(session, line);
    if (!chat.ok()) return std::move(chat).error().WithContext(fmt::format("'{}' line {}", path, number + 1));
    chat->source = fmt::format("{}, line {}", name, number + 1);
    const auto room = static_cast<size_t>(segment_tokens);
    if (chat->tokens.size() > room) {
      *left_out += static_cast<int64_t>(chat->tokens.size() - room);
      chat->tokens.resize(room);
    }
    chats.push_back(std::move(*chat));
  }
  return chats;
}

void Limit(int64_t limit, CalibrationText* text) {
  Segments kept;
  for (CalibrationSegment& segment : text->segments) {
    const auto size = static_cast<int64_t>(segment.tokens.size());
    const int64_t room = limit > 0 ? std::min(size, limit - text->tokens) : size;
    text->tokens_left_out += size - room;
    if (room <= 0) {
      if (segment.tokens.size() > text->held_out.size()) text->held_out = std::move(segment.tokens);
      continue;
    }
    segment.tokens.resize(static_cast<size_t>(room));
    text->tokens += room;
    kept.push_back(std::move(segment));
  }
  text->segments = std::move(kept);
}

}  // namespace

Result<CalibrationText> MakeCalibrationText(const Session& session, const CalibrationTextRequest& request) {
  CalibrationText text;
  int64_t limit = request.tokens;
  const int64_t segment_tokens =
      request.segment_tokens > 0 ? request.segment_tokens : std::min(kSegmentTokens, session.spec().max_positions);
  if (!request.chats_path.empty()) {
    HAYPILE_TRY_ASSIGN(text.segments, Chats(session, request.chats_path, segment_tokens, &text.tokens_left_out));
  } else if (!request.text_path.empty()) {
    HAYPILE_TRY_ASSIGN(const std::string content, ReadFile(request.text_path));
    const std::string name = std::filesystem::path(request.text_path).filename().string();
    text.segments = PiecesOf(session, name, content, segment_tokens);
  } else {
    text.segments = BuiltInPieces(session, segment_tokens);
    if (limit == 0) limit = kBuiltInTokens;
  }
  Limit(limit, &text);
  if (text.tokens == 0) return Error(ErrorCode::kInvalidArgument, "the calibration text has no tokens");
  return text;
}

}  // namespace haypile
