#include "checkpoint/json_scanner.h"

#include <unordered_set>

#include "checkpoint/weight_type.h"

namespace haypile {
namespace {

constexpr int kDeepest = 64;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(uint32_t code, std::string* out) {
  const auto add = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    add(0x80 | (code & 63));
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 63));
    add(0x80 | (code & 63));
  } else {
    add(0xf0 | code >> 18);
    add(0x80 | (code >> 12 & 63));
    add(0x80 | (code >> 6 & 63));
    add(0x80 | (code & 63));
  }
}

}  // namespace

Error JsonScanner::BadAt(uint64_t file_offset, const std::string& what) const {
  return Error(ErrorCode::kMalformed, where_ + ": byte " + std::to_string(file_offset) + ": " + what);
}

void JsonScanner::SkipSpace() {
  while (position_ < text_.size() && std::string_view(" \t\n\r").find(text_[position_]) != std::string_view::npos) {
    ++position_;
  }
}

char JsonScanner::Peek() {
  SkipSpace();
  return position_ < text_.size() ? text_[position_] : '\0';
}

Status JsonScanner::Expect(char wanted) {
  if (Peek() != wanted || position_ == text_.size()) {
    return Bad(std::string("JSON: expected '") + wanted + "'" + (position_ == text_.size() ? ", but it ends" : ""));
  }
  ++position_;
  return {};
}

Result<bool> JsonScanner::Continue(char close) {
  if (Peek() == ',') {
    ++position_;
    return true;
  }
  HAYPILE_TRY(Expect(close));
  return false;
}

Status JsonScanner::ReadObject(const std::function<Status(const std::string& key)>& member) {
  HAYPILE_TRY(Expect('{'));
  if (Peek() == '}') {
    ++position_;
    return {};
  }
  std::unordered_set<std::string> seen;
  bool more = true;
  while (more) {
    SkipSpace();
    const uint64_t key_offset = offset();
    HAYPILE_TRY_ASSIGN(const std::string key, ReadString());
    if (!seen.insert(key).second) return BadAt(key_offset, "key " + QuotedName(key) + " appears twice");
    HAYPILE_TRY(Expect(':'));
    HAYPILE_TRY(member(key));
    HAYPILE_TRY_ASSIGN(more, Continue('}'));
  }
  return {};
}

Result<std::string> JsonScanner::ReadString() {
  HAYPILE_TRY(Expect('"'));
  std::string value;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '"') {
      ++position_;
      return value;
    }
    if (static_cast<unsigned char>(c) < 0x20) return Bad("JSON: a control character inside a string");
    ++position_;
    if (c == '\\') {
      HAYPILE_TRY(AppendEscape(&value));
    } else {
      value.push_back(c);
    }
  }
  return Bad("JSON: it ends inside a string");
}

Result<uint32_t> JsonScanner::ReadHex4() {
  uint32_t code = 0;
  for (int i = 0; i < 4; ++i, ++position_) {
    const char c = position_ < text_.size() ? text_[position_] : '\0';
    const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (c == '\0' || digit == std::string_view::npos) return Bad("JSON: \\u without four hex digits");
    code = code * 16 + static_cast<uint32_t>(digit < 16 ? digit : digit - 6);
  }
  return code;
}

Status JsonScanner::AppendEscape(std::string* out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char c = position_ < text_.size() ? text_[position_] : '\0';
  if (const size_t simple = kLetters.find(c); simple != std::string_view::npos) {
    out->push_back(kMeanings[simple]);
    ++position_;
    return {};
  }
  if (c != 'u') return Bad("JSON: an unknown escape");
  ++position_;
  HAYPILE_TRY_ASSIGN(uint32_t code, ReadHex4());
  if (code >= 0xd800 && code < 0xdc00 && text_.substr(position_, 2) == "\\u") {
    position_ += 2;
    HAYPILE_TRY_ASSIGN(const uint32_t low, ReadHex4());
    if (low < 0xdc00 || low > 0xdfff) return Bad("JSON: half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xd800 && code <= 0xdfff) {
    return Bad("JSON: half of a surrogate pair");
  }
  AppendUtf8(code, out);
  return {};
}

Result<int64_t> JsonScanner::ReadInt() {
  if (!IsDigit(Peek())) return Bad("JSON: expected an integer >= 0");
  const size_t start = position_;
  int64_t value = 0;
  for (; position_ < text_.size() && IsDigit(text_[position_]); ++position_) {
    if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
        __builtin_add_overflow(value, int64_t{text_[position_] - '0'}, &value)) {
      return Bad("JSON: an integer beyond 2^63-1");
    }
  }
  if (text_[start] == '0' && position_ > start + 1) return Bad("JSON: an integer with leading zeros");
  const char next = position_ < text_.size() ? text_[position_] : '\0';
  if (next == '.' || next == 'e' || next == 'E') return Bad("JSON: expected an integer, not a fraction");
  return value;
}

Result<std::vector<int64_t>> JsonScanner::ReadIntArray() {
  HAYPILE_TRY(Expect('['));
  std::vector<int64_t> values;
  if (Peek() == ']') {
    ++position_;
    return values;
  }
  bool more = true;
  while (more) {
    HAYPILE_TRY_ASSIGN(const int64_t value, ReadInt());
    values.push_back(value);
    HAYPILE_TRY_ASSIGN(more, Continue(']'));
  }
  return values;
}

Status JsonScanner::SkipValue(int depth) {
  if (depth > kDeepest) return Bad("JSON: nested deeper than 64 levels");
  const char first = Peek();
  if (first == '"') {
    HAYPILE_TRY(ReadString());
    return {};
  }
  if (first == '{') return ReadObject([this, depth](const std::string&) { return SkipValue(depth + 1); });
  if (first == '[') {
    ++position_;
    if (Peek() == ']') {
      ++position_;
      return {};
    }
    bool more = true;
    while (more) {
      HAYPILE_TRY(SkipValue(depth + 1));
      HAYPILE_TRY_ASSIGN(more, Continue(']'));
    }
    return {};
  }
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(position_, word.size()) == word) {
      position_ += word.size();
      return {};
    }
  }
  if (first != '-' && !IsDigit(first)) return Bad("JSON: expected a value");
  while (position_ < text_.size() &&
         (IsDigit(text_[position_]) || std::string_view("+-.eE").find(text_[position_]) != std::string_view::npos)) {
    ++position_;
  }
  return {};
}

Status JsonScanner::ExpectEnd() {
  SkipSpace();
  if (position_ < text_.size()) return Bad("JSON: unexpected content after the closing brace");
  return {};
}

}  // namespace haypile
