#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {

// Text of vocabulary entries to ids; views into the vocabulary it was made of.
using TokenIndex = std::unordered_map<std::string_view, int32_t>;

// Byte-pair merging of one piece of text: start from single bytes (byte-level) or characters (SentencePiece), and
// while there is one, join the neighbouring pair that comes first in merge order, the leftmost of equals. A heap of
// candidate pairs over a linked list of symbols: O(n log n) for n bytes.
class Bpe {
 public:
  // `spec.tokens` must outlive the result. kMalformed names a merge whose parts or outcome are not in the vocabulary.
  static Result<Bpe> Create(const TokenizerSpec& spec);

  // Appends the ids of `piece`: raw bytes for byte-level, text with spaces written as U+2581 for SentencePiece.
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const;

 private:
  struct Symbol {
    int32_t id;  // -1: no such token (yet), the text alone counts
    uint32_t begin, size;
    int32_t previous, next;  // -1 at the ends; `size` 0 marks a symbol that was joined to its left neighbour
  };
  struct Candidate {
    double order;  // smaller first
    int32_t left, right;
    int32_t id;     // of the joined token
    uint32_t size;  // of the joined text; another size means that the pair has changed since
    bool operator>(const Candidate& other) const {
      return order != other.order ? order > other.order : left > other.left;
    }
  };
  // What an unused token was joined from; SentencePiece splits it so again when merging is done.
  struct Parts {
    int32_t left, right;
    uint32_t left_size;
  };
  using JoinedUnused = std::unordered_map<int32_t, Parts>;
  struct RankedMerge {
    int32_t rank;
    int32_t id;
  };
  using Heap = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<Candidate>>;

  Status AddMerges(const TokenizerSpec& spec);
  std::vector<Symbol> ByteSymbols(std::string_view piece) const;
  std::vector<Symbol> CharacterSymbols(std::string_view piece) const;
  void AppendSymbol(int32_t id, size_t begin, size_t size, std::vector<Symbol>* symbols) const;
  void Consider(std::string_view piece, const std::vector<Symbol>& symbols, int32_t left, Heap* heap) const;
  void Join(std::string_view piece, std::vector<Symbol>* symbols, JoinedUnused* joined_unused) const;
  void AppendIds(std::string_view text, int32_t id, const JoinedUnused& joined_unused, std::vector<int32_t>* ids) const;

  TokenizerKind kind_ = TokenizerKind::kByteLevel;
  TokenIndex mergeable_;                              // tokens that merging may produce
  std::unordered_map<uint64_t, RankedMerge> merges_;  // by left id << 32 | right id; with ranks only
  std::vector<float> scores_;                         // by id; without ranks only
  std::unordered_set<int32_t> unused_;                // tokens that are split again after merging
  std::vector<int32_t> byte_ids_;                     // 256, -1 where the vocabulary has none
  std::optional<int32_t> unknown_id_;
  uint32_t longest_token_bytes_ = 0;
  bool ignore_merges_ = false;
};

}  // namespace haypile
