#include "tokenizer/utf8.h"

#include <algorithm>

#include "base/check.h"

namespace haypile {
namespace {

// What may stand at the start of a character: its length, and the range of the second byte.
struct LeadByte {
  size_t length;
  uint8_t second_min, second_max;
};

LeadByte ClassifyLead(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Length of the character that `text` begins, if the bytes present (all of `text` or the character's) can be its start.
size_t LengthIfPrefix(std::string_view text) {
  if (text.empty()) return 0;
  const LeadByte lead = ClassifyLead(static_cast<uint8_t>(text[0]));
  const size_t present = std::min(text.size(), lead.length);
  for (size_t i = 1; i < present; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.second_min : 0x80;
    const uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return 0;
  }
  return lead.length;
}

}  // namespace

size_t Utf8CharacterLength(std::string_view text) {
  const size_t length = LengthIfPrefix(text);
  return length <= text.size() ? length : 0;
}

char32_t DecodeUtf8(std::string_view text, size_t length) {
  static constexpr uint8_t kLeadMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  HAYPILE_CHECK(length >= 1 && length <= 4 && length <= text.size());
  char32_t code_point = static_cast<uint8_t>(text[0]) & kLeadMask[length];
  for (size_t i = 1; i < length; ++i) code_point = (code_point << 6) | (static_cast<uint8_t>(text[i]) & 0x3F);
  return code_point;
}

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto tail = [&](int shift) { out->push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F))); };
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    tail(0);
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    tail(6);
    tail(0);
  } else {
    out->push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

size_t IncompleteUtf8Suffix(std::string_view text) {
  for (size_t size = std::min<size_t>(3, text.size()); size > 0; --size) {
    if (LengthIfPrefix(text.substr(text.size() - size)) > size) return size;
  }
  return 0;
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    const size_t length = Utf8CharacterLength(text.substr(position));
    if (length == 0) break;
    position += length;
  }
  return position;
}

bool IsUnicodeSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace haypile
