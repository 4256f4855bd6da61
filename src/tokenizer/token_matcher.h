#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer_spec.h"

namespace haypile {

// Finds added tokens in text: at the leftmost position where one stands, the longest. A trie of bytes.
class TokenMatcher {
 public:
  // A piece of text between tokens (`id` -1), or a token.
  struct Segment {
    int32_t id;
    std::string_view text;
  };

  TokenMatcher();
  void Add(const AddedToken& token);

  // Segments in order, none empty; tokens that are control only if `with_control`.
  std::vector<Segment> Split(std::string_view text, bool with_control) const;

 private:
  struct Match {
    int32_t token;  // index into tokens_, or -1
    size_t size;
  };
  struct Token {
    int32_t id;
    bool control, lstrip, rstrip;
  };
  Match LongestAt(std::string_view text, bool with_control) const;

  std::vector<Token> tokens_;
  std::vector<int32_t> token_at_;                   // by node: index into tokens_, or -1
  std::array<int32_t, 256> root_;                   // children of node 0, 0 for none
  std::unordered_map<uint64_t, int32_t> children_;  // other nodes: parent << 8 | byte
};

}  // namespace haypile
