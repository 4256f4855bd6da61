#include "tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/utf8.h"

namespace haypile {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

}  // namespace

Result<Bpe> Bpe::Create(const TokenizerSpec& spec) {
  Bpe bpe;
  bpe.kind_ = spec.kind;
  bpe.unknown_id_ = spec.unknown_id;
  bpe.ignore_merges_ = spec.ignore_merges;
  bpe.scores_ = spec.scores;
  bpe.byte_ids_.assign(256, -1);
  bpe.mergeable_.reserve(spec.tokens.size());
  const bool byte_level = spec.kind == TokenizerKind::kByteLevel;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& token = spec.tokens[id];
    // Markup is reached through the added tokens alone, so that plain text can never become it.
    if (token.empty() || spec.types[id] == TokenType::kControl || spec.types[id] == TokenType::kUnknown ||
        spec.types[id] == TokenType::kByte) {
      continue;
    }
    if (spec.types[id] == TokenType::kUnused) bpe.unused_.insert(static_cast<int32_t>(id));
    bpe.mergeable_.try_emplace(token, static_cast<int32_t>(id));
    bpe.longest_token_bytes_ = std::max(bpe.longest_token_bytes_, static_cast<uint32_t>(token.size()));
  }
  if (!byte_level) {
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      if (spec.types[id] != TokenType::kByte) continue;
      const int byte = std::stoi(spec.tokens[id].substr(3, 2), nullptr, 16);
      bpe.byte_ids_[byte] = static_cast<int32_t>(id);
    }
  } else {
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = bpe.mergeable_.find(AlphabetFromBytes(std::string(1, static_cast<char>(byte))));
      if (found != bpe.mergeable_.end()) bpe.byte_ids_[byte] = found->second;
    }
  }
  HAYPILE_TRY(bpe.AddMerges(spec));
  return bpe;
}

Status Bpe::AddMerges(const TokenizerSpec& spec) {
  std::unordered_set<std::string_view> vocabulary;
  if (!spec.merges.empty()) vocabulary.insert(spec.tokens.begin(), spec.tokens.end());
  merges_.reserve(spec.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const Merge& merge = spec.merges[rank];
    joined.assign(merge.left).append(merge.right);
    for (const std::string& text : {merge.left, merge.right, joined}) {
      if (text.empty() || !vocabulary.contains(text)) {
        return Error(ErrorCode::kMalformed, fmt::format("merge {} ('{}' with '{}'): '{}' is not in the vocabulary",
                                                        rank, merge.left, merge.right, text));
      }
    }
    const auto left = mergeable_.find(merge.left);
    const auto right = mergeable_.find(merge.right);
    const auto outcome = mergeable_.find(joined);
    // A merge towards the text of a control token: that text is never reached by merging.
    if (left == mergeable_.end() || right == mergeable_.end() || outcome == mergeable_.end()) continue;
    merges_.try_emplace(PairKey(left->second, right->second), RankedMerge{static_cast<int32_t>(rank), outcome->second});
  }
  return {};
}

void Bpe::AppendSymbol(int32_t id, size_t begin, size_t size, std::vector<Symbol>* symbols) const {
  const auto index = static_cast<int32_t>(symbols->size());
  if (index > 0) symbols->back().next = index;
  symbols->push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(size), index - 1, -1});
}

std::vector<Bpe::Symbol> Bpe::ByteSymbols(std::string_view piece) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (size_t i = 0; i < piece.size(); ++i) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(piece[i])];
    if (id >= 0) {
      AppendSymbol(id, i, 1, &symbols);
    } else if (unknown_id_) {
      AppendSymbol(*unknown_id_, i, 1, &symbols);
    }
  }
  return symbols;
}

std::vector<Bpe::Symbol> Bpe::CharacterSymbols(std::string_view piece) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (size_t position = 0; position < piece.size();) {
    const size_t size = std::max<size_t>(1, Utf8CharacterLength(piece.substr(position)));
    const auto found = mergeable_.find(piece.substr(position, size));
    AppendSymbol(found == mergeable_.end() ? -1 : found->second, position, size, &symbols);
    position += size;
  }
  return symbols;
}

void Bpe::Consider(std::string_view piece, const std::vector<Symbol>& symbols, int32_t left, Heap* heap) const {
  if (left < 0 || symbols[left].next < 0) return;
  const int32_t right = symbols[left].next;
  const Symbol& a = symbols[left];
  const Symbol& b = symbols[right];
  if (scores_.empty()) {
    if (a.id < 0 || b.id < 0) return;
    const auto found = merges_.find(PairKey(a.id, b.id));
    if (found == merges_.end()) return;
    heap->push({static_cast<double>(found->second.rank), left, right, found->second.id, a.size + b.size});
    return;
  }
  if (a.size + b.size > longest_token_bytes_) return;
  const auto found = mergeable_.find(piece.substr(a.begin, a.size + b.size));
  if (found == mergeable_.end()) return;
  heap->push({-static_cast<double>(scores_[found->second]), left, right, found->second, a.size + b.size});
}

void Bpe::Join(std::string_view piece, std::vector<Symbol>* symbols, JoinedUnused* joined_unused) const {
  Heap heap;
  const auto count = static_cast<int32_t>(symbols->size());
  for (int32_t i = 0; i + 1 < count; ++i) Consider(piece, *symbols, i, &heap);
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Symbol& left = (*symbols)[best.left];
    Symbol& right = (*symbols)[best.right];
    // Symbols only grow, so a pair whose parts live and whose size is unchanged is the pair that was considered.
    if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
    if (unused_.contains(best.id)) joined_unused->try_emplace(best.id, Parts{left.id, right.id, left.size});
    left.id = best.id;
    left.size = best.size;
    left.next = right.next;
    if (right.next >= 0) (*symbols)[right.next].previous = best.left;
    right.size = 0;
    Consider(piece, *symbols, left.previous, &heap);
    Consider(piece, *symbols, best.left, &heap);
  }
}

void Bpe::AppendIds(std::string_view text, int32_t id, const JoinedUnused& joined_unused,
                    std::vector<int32_t>* ids) const {
  if (const auto parts = joined_unused.find(id); parts != joined_unused.end()) {
    AppendIds(text.substr(0, parts->second.left_size), parts->second.left, joined_unused, ids);
    AppendIds(text.substr(parts->second.left_size), parts->second.right, joined_unused, ids);
    return;
  }
  if (id >= 0) {
    ids->push_back(id);
    return;
  }
  const auto byte_id = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (std::all_of(text.begin(), text.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
    for (const char byte : text) ids->push_back(byte_id(byte));
  } else if (unknown_id_) {
    ids->push_back(*unknown_id_);
  }
}

void Bpe::Encode(std::string_view piece, std::vector<int32_t>* ids) const {
  HAYPILE_CHECK_LT(piece.size(), size_t{1} << 31);
  const bool byte_level = kind_ == TokenizerKind::kByteLevel;
  if (ignore_merges_) {
    const auto found = mergeable_.find(byte_level ? AlphabetFromBytes(piece) : std::string(piece));
    if (found != mergeable_.end()) {
      ids->push_back(found->second);
      return;
    }
  }
  std::vector<Symbol> symbols = byte_level ? ByteSymbols(piece) : CharacterSymbols(piece);
  JoinedUnused joined_unused;
  Join(piece, &symbols, &joined_unused);
  for (const Symbol& symbol : symbols) {
    if (symbol.size > 0) AppendIds(piece.substr(symbol.begin, symbol.size), symbol.id, joined_unused, ids);
  }
}

}  // namespace haypile
