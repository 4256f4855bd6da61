#include "tokenizer/token_matcher.h"

#include "tokenizer/utf8.h"

namespace haypile {
namespace {

size_t LeadingSpace(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    const size_t length = Utf8CharacterLength(text.substr(position));
    if (length == 0 || !IsUnicodeSpace(DecodeUtf8(text.substr(position), length))) break;
    position += length;
  }
  return position;
}

size_t TrailingSpace(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    const size_t length = Utf8CharacterLength(text.substr(begin, end - begin));
    if (length != end - begin || !IsUnicodeSpace(DecodeUtf8(text.substr(begin), length))) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace

TokenMatcher::TokenMatcher() : token_at_(1, -1) { root_.fill(0); }

void TokenMatcher::Add(const AddedToken& token) {
  if (token.content.empty()) return;
  int32_t node = 0;
  for (const char c : token.content) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t& child = node == 0 ? root_[byte] : children_[(static_cast<uint64_t>(node) << 8) | byte];
    if (child == 0) {
      child = static_cast<int32_t>(token_at_.size());
      token_at_.push_back(-1);
    }
    node = child;
  }
  // The first of two tokens with one text is the one that text means.
  if (token_at_[node] >= 0) return;
  token_at_[node] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back({token.id, token.control, token.lstrip, token.rstrip});
}

TokenMatcher::Match TokenMatcher::LongestAt(std::string_view text, bool with_control) const {
  Match best{-1, 0};
  int32_t node = root_[static_cast<uint8_t>(text[0])];
  for (size_t size = 1; node != 0; ++size) {
    const int32_t token = token_at_[node];
    if (token >= 0 && (with_control || !tokens_[token].control)) best = {token, size};
    if (size == text.size()) break;
    const auto child = children_.find((static_cast<uint64_t>(node) << 8) | static_cast<uint8_t>(text[size]));
    node = child == children_.end() ? 0 : child->second;
  }
  return best;
}

std::vector<TokenMatcher::Segment> TokenMatcher::Split(std::string_view text, bool with_control) const {
  std::vector<Segment> segments;
  size_t done = 0;
  for (size_t position = 0; position < text.size();) {
    const Match match = LongestAt(text.substr(position), with_control);
    if (match.token < 0) {
      ++position;
      continue;
    }
    const Token& token = tokens_[match.token];
    size_t begin = position;
    size_t end = position + match.size;
    if (token.lstrip) begin -= TrailingSpace(text.substr(done, begin - done));
    if (token.rstrip) end += LeadingSpace(text.substr(end));
    if (begin > done) segments.push_back({-1, text.substr(done, begin - done)});
    segments.push_back({token.id, text.substr(begin, end - begin)});
    done = position = end;
  }
  if (done < text.size()) segments.push_back({-1, text.substr(done)});
  return segments;
}

}  // namespace haypile
