#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {
namespace {

using Ids = std::vector<int32_t>;

// 256 bytes in order, then "he", "ll", "hell", "hello", then markup.
TokenizerSpec ByteLevelSpec() {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(AlphabetFromBytes(std::string(1, char(byte))));
  spec.merges = {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}};
  for (const Merge& merge : spec.merges) spec.tokens.push_back(merge.left + merge.right);
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  for (const char* text : {"<end>", "<tool>", "<tool>s"}) {
    const bool control = std::string(text) == "<end>";
    AddedToken added;
    added.id = static_cast<int32_t>(spec.tokens.size());
    added.content = text;
    added.control = control;
    spec.added_tokens.push_back(added);
    spec.tokens.push_back(text);
    spec.types.push_back(control ? TokenType::kControl : TokenType::kUserDefined);
  }
  spec.eos_ids = {260};
  return spec;
}

// "<unk>", 256 byte tokens from 1 on, then pieces with scores.
TokenizerSpec SentencePieceSpec() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePiece;
  const auto add = [&](std::string text, TokenType type, float score) {
    spec.tokens.push_back(std::move(text));
    spec.types.push_back(type);
    spec.scores.push_back(score);
  };
  add("<unk>", TokenType::kUnknown, 0);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", TokenType::kByte, 0);
  }
  for (const char* text : {"\u2581", "a", "b", "c"}) add(text, TokenType::kNormal, -10);  // 257 to 260
  add("ab", TokenType::kNormal, -3);                                                      // 261
  add("bc", TokenType::kNormal, -2);                                                      // 262
  add("\u2581a", TokenType::kNormal, -4);                                                 // 263
  add("abc", TokenType::kNormal, -1);                                                     // 264
  spec.unknown_id = 0;
  return spec;
}

std::unique_ptr<Tokenizer> Make(TokenizerSpec spec) {
  auto made = Tokenizer::FromSpec(std::move(spec));
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message());
  return std::move(made).value();
}

std::string ErrorOf(TokenizerSpec spec) {
  auto made = Tokenizer::FromSpec(std::move(spec));
  return made.ok() ? "no error" : made.error().message();
}

TEST(ByteLevel, MergesInRankOrder) {
  const auto tokenizer = Make(ByteLevelSpec());
  EXPECT_EQ(tokenizer->Encode("hello"), (Ids{259}));
  EXPECT_EQ(tokenizer->Encode("hell"), (Ids{258}));
  // "ll" joins leftmost first, and "he" before "ll".
  EXPECT_EQ(tokenizer->Encode("lll"), (Ids{257, 'l'}));
  EXPECT_EQ(tokenizer->Encode("hhello o"), (Ids{'h', 259, ' ', 'o'}));
}

TEST(ByteLevel, EmptyTextHasNoTokens) {
  const auto tokenizer = Make(ByteLevelSpec());
  EXPECT_TRUE(tokenizer->Encode("").empty());
  EXPECT_EQ(tokenizer->Decode({}), "");
  EXPECT_EQ(StreamDecoder(*tokenizer).Finish(), "");
}

TEST(ByteLevel, EveryByteGoesThereAndBack) {
  const auto tokenizer = Make(ByteLevelSpec());
  std::string bytes;
  for (int first = 0; first < 256; ++first) {
    for (const int second : {0x00, 0x41, 0x80, 0xBF, 0xE2, 0xFF}) bytes += {char(first), char(second)};
  }
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(bytes)), bytes);
}

TEST(ByteLevel, SpecialTokensOnlyWhenParsed) {
  const auto tokenizer = Make(ByteLevelSpec());
  EXPECT_EQ(tokenizer->Encode("he<end>he"), (Ids{256, 260, 256}));
  EXPECT_EQ(tokenizer->Encode("<end>", false), (Ids{'<', 'e', 'n', 'd', '>'}));
  EXPECT_EQ(tokenizer->Encode("<tool>", false), (Ids{261})) << "user-defined tokens are content";
  EXPECT_EQ(tokenizer->Encode("<tool>s<tool>x"), (Ids{262, 261, 'x'})) << "the longest is taken";
  EXPECT_EQ(tokenizer->Decode(Ids{256, 260, 261}), "he<tool>");
  EXPECT_EQ(tokenizer->Decode(Ids{256, 260, 261}, false), "he<end><tool>");
  EXPECT_TRUE(tokenizer->IsSpecial(260));
  EXPECT_FALSE(tokenizer->IsSpecial(261));
  EXPECT_EQ(tokenizer->TokenId("<end>"), 260);
  EXPECT_FALSE(tokenizer->TokenId("nothing"));
}

TEST(ByteLevel, IdsOutsideTheVocabularyAreNothing) {
  const auto tokenizer = Make(ByteLevelSpec());
  EXPECT_EQ(tokenizer->Decode(Ids{-1, 'a', 100000}, false), "a");
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
  EXPECT_FALSE(tokenizer->IsEos(-1));
}

TEST(ByteLevel, IgnoreMergesTakesAWholePiece) {
  TokenizerSpec spec = ByteLevelSpec();
  spec.tokens.push_back("ox");
  spec.types.push_back(TokenType::kNormal);
  EXPECT_EQ(Make(spec)->Encode("ox"), (Ids{'o', 'x'})) << "no merge makes it";
  spec.ignore_merges = true;
  EXPECT_EQ(Make(spec)->Encode("ox"), (Ids{263}));
}

TEST(ByteLevel, BytesWithoutATokenAreLeftOutOrUnknown) {
  TokenizerSpec spec = ByteLevelSpec();
  spec.tokens['!'].clear();
  EXPECT_EQ(Make(spec)->Encode("a!b"), (Ids{'a', 'b'}));
  spec.unknown_id = '?';
  EXPECT_EQ(Make(spec)->Encode("a!b"), (Ids{'a', '?', 'b'}));
}

TEST(ByteLevel, StrippingTokensTakeWhiteSpace) {
  TokenizerSpec spec = ByteLevelSpec();
  spec.added_tokens[0].lstrip = spec.added_tokens[0].rstrip = true;
  EXPECT_EQ(Make(spec)->Encode("a \t<end>\u3000 b"), (Ids{'a', 260, 'b'}));
  EXPECT_EQ(Make(spec)->Encode(" <end> <end> "), (Ids{260, 260}));
}

TEST(SentencePiece, MergesByScore) {
  const auto tokenizer = Make(SentencePieceSpec());
  EXPECT_EQ(tokenizer->Encode("ab"), (Ids{261}));
  // "bc" beats "ab"; then "a" and "bc" make "abc".
  EXPECT_EQ(tokenizer->Encode("abc"), (Ids{264}));
  EXPECT_EQ(tokenizer->Encode(" ab"), (Ids{257, 261})) << "\"ab\" beats \"\u2581a\"";
  EXPECT_EQ(tokenizer->Encode(" ac"), (Ids{263, 260}));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(" ac  b")), " ac  b");
}

TEST(SentencePiece, FallsBackToBytes) {
  const auto tokenizer = Make(SentencePieceSpec());
  EXPECT_EQ(tokenizer->Encode("a\u00E9"), (Ids{258, 1 + 0xC3, 1 + 0xA9}));
  const std::string broken = "a\xFF\xC3 \xE2\x82";
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(broken)), broken);
  EXPECT_EQ(tokenizer->Encode("<0x41>", false).size(), 6u) << "a byte token's name is plain text";
}

TEST(SentencePiece, UnknownWithoutByteTokens) {
  TokenizerSpec spec = SentencePieceSpec();
  for (TokenType& type : spec.types) {
    if (type == TokenType::kByte) type = TokenType::kControl;
  }
  EXPECT_EQ(Make(spec)->Encode("a\u00E9"), (Ids{258, 0}));
}

TEST(SentencePiece, UnusedTokensAreSplitAgain) {
  TokenizerSpec spec = SentencePieceSpec();
  spec.types[264] = TokenType::kUnused;
  EXPECT_EQ(Make(spec)->Encode("abc"), (Ids{258, 262}));
}

TEST(SentencePiece, SpacePrefix) {
  TokenizerSpec spec = SentencePieceSpec();
  AddedToken end;
  end.id = 0;
  end.content = "<unk>";
  end.control = true;
  spec.added_tokens = {end};
  spec.space_prefix = SpacePrefix::kFirst;
  EXPECT_EQ(Make(spec)->Encode("ac<unk>ac"), (Ids{263, 260, 0, 258, 260}));
  EXPECT_EQ(Make(spec)->Encode(" b"), (Ids{257, 257, 259}));
  spec.space_prefix_if_missing = true;
  EXPECT_EQ(Make(spec)->Encode(" b"), (Ids{257, 259}));
  spec.space_prefix = SpacePrefix::kEverySegment;
  EXPECT_EQ(Make(spec)->Encode("ac<unk>ac"), (Ids{263, 260, 0, 263, 260}));
}

TEST(StreamDecoder, WithholdsIncompleteCharacters) {
  const auto tokenizer = Make(ByteLevelSpec());
  StreamDecoder stream(*tokenizer);
  EXPECT_EQ(stream.Push('a'), "a");
  EXPECT_EQ(stream.Push(0xE2), "");
  EXPECT_EQ(stream.Push(0x82), "");
  EXPECT_EQ(stream.Push(0xAC), "\u20AC");
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Push(260), "") << "a skipped token changes nothing";
  EXPECT_EQ(stream.Push('b'),
            "\xF0"
            "b")
      << "what cannot be completed is let go";
  EXPECT_EQ(stream.Push(0xC3), "");
  EXPECT_EQ(stream.Finish(), "\xC3");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(FromSpec, RefusesWhatDoesNotFit) {
  EXPECT_EQ(ErrorOf({}), "the vocabulary is empty");
  TokenizerSpec spec = ByteLevelSpec();
  spec.types.pop_back();
  EXPECT_EQ(ErrorOf(spec), "262 token types for 263 tokens");
  spec = ByteLevelSpec();
  spec.merges.push_back({"x", "yz"});
  EXPECT_EQ(ErrorOf(spec), "merge 4 ('x' with 'yz'): 'yz' is not in the vocabulary");
  spec = ByteLevelSpec();
  spec.eos_ids = {263};
  EXPECT_EQ(ErrorOf(spec), "end-of-sequence token id 263 is outside the vocabulary of 263");
  spec = ByteLevelSpec();
  spec.bos_id = -1;
  EXPECT_EQ(ErrorOf(spec), "begin-of-sequence token id -1 is outside the vocabulary of 263");
  spec = ByteLevelSpec();
  spec.steps = {{"(unclosed", {}}};
  EXPECT_EQ(ErrorOf(spec),
            "pre-tokenizer pattern '(unclosed' does not compile: missing closing parenthesis at offset 9");
  spec = SentencePieceSpec();
  spec.tokens[1] = "<0xZZ>";
  EXPECT_EQ(ErrorOf(spec), "byte token 1 is '<0xZZ>', expected <0x00> to <0xFF>");
  spec = SentencePieceSpec();
  spec.scores.pop_back();
  EXPECT_EQ(ErrorOf(spec), "264 token scores for 265 tokens");
}

TEST(CompleteEosIds, AddsKnownControlTokensOnce) {
  TokenizerSpec spec;
  spec.tokens = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "x"};
  spec.types = {TokenType::kControl, TokenType::kNormal, TokenType::kControl, TokenType::kNormal};
  spec.eos_ids = {3, 2};
  CompleteEosIds(&spec);
  EXPECT_EQ(spec.eos_ids, (Ids{0, 2, 3}));
}

}  // namespace
}  // namespace haypile
