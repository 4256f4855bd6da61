#include <gtest/gtest.h>

#include "base/json.h"
#include "checkpoint/gguf.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {
namespace {

// Metadata as a JSON object, answering as a GGUF file does.
class FakeGguf : public GgufFile {
 public:
  explicit FakeGguf(Json values) : values_(std::move(values)) {}
  bool Has(std::string_view key) const override { return values_.contains(std::string(key)); }
  Result<std::string> GetString(std::string_view key) const override { return Get<std::string>(key); }
  Result<int64_t> GetInt(std::string_view key) const override { return Get<int64_t>(key); }
  Result<double> GetFloat(std::string_view key) const override { return Get<double>(key); }
  Result<bool> GetBool(std::string_view key) const override { return Get<bool>(key); }
  Result<std::vector<std::string>> GetStringArray(std::string_view key) const override {
    return Get<std::vector<std::string>>(key);
  }
  Result<std::vector<int64_t>> GetIntArray(std::string_view key) const override {
    return Get<std::vector<int64_t>>(key);
  }
  Result<std::vector<float>> GetFloatArray(std::string_view key) const override { return Get<std::vector<float>>(key); }

 private:
  template <typename T>
  Result<T> Get(std::string_view key) const {
    if (!Has(key)) return Error(ErrorCode::kNotFound, "no key " + std::string(key));
    return values_[std::string(key)].get<T>();
  }
  Json values_;
};

Json ByteLevelMetadata() {
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", "llama-bpe"},
          {"tokenizer.ggml.tokens", {"a", "b", "ab", "<|eot_id|>", "<s>"}},
          {"tokenizer.ggml.token_type", {1, 1, 1, 3, 3}},
          {"tokenizer.ggml.merges", {"a b"}},
          {"tokenizer.ggml.bos_token_id", 4},
          {"tokenizer.ggml.eos_token_id", 4},
          {"tokenizer.ggml.eot_token_id", 4294967295}};
}

Json SentencePieceMetadata() {
  return {{"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.tokens", {"<unk>", "<s>", "\u2581", "a", "\u2581a"}},
          {"tokenizer.ggml.scores", {0.0, 0.0, -2.0, -3.0, -1.0}},
          {"tokenizer.ggml.token_type", {2, 3, 1, 1, 1}},
          {"tokenizer.ggml.bos_token_id", 1}};
}

Error RefusalOf(Json metadata) {
  auto made = Tokenizer::FromGguf(FakeGguf(std::move(metadata)));
  EXPECT_FALSE(made.ok());
  return made.ok() ? Error(ErrorCode::kInternal, "no error") : made.error();
}

TEST(GgufTokenizer, ByteLevel) {
  const auto tokenizer = Tokenizer::FromGguf(FakeGguf(ByteLevelMetadata())).value();
  EXPECT_EQ(tokenizer->Encode("ab<|eot_id|>"), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(tokenizer->bos(), 4) << "this pre-tokenizer's models want one";
  EXPECT_EQ(tokenizer->eos_ids(), (std::vector<int32_t>{3, 4}));
  Json metadata = ByteLevelMetadata();
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_FALSE(Tokenizer::FromGguf(FakeGguf(metadata)).value()->bos());
}

TEST(GgufTokenizer, SentencePieceHasBosAndSpacePrefixUnlessTheFileSaysOtherwise) {
  const auto tokenizer = Tokenizer::FromGguf(FakeGguf(SentencePieceMetadata())).value();
  EXPECT_EQ(tokenizer->Encode("a<s>a"), (std::vector<int32_t>{4, 1, 4}));
  EXPECT_EQ(tokenizer->bos(), 1);
  Json metadata = SentencePieceMetadata();
  metadata["tokenizer.ggml.add_bos_token"] = false;
  metadata["tokenizer.ggml.add_space_prefix"] = false;
  const auto plain = Tokenizer::FromGguf(FakeGguf(metadata)).value();
  EXPECT_EQ(plain->Encode("a<s>a"), (std::vector<int32_t>{3, 1, 3}));
  EXPECT_FALSE(plain->bos());
}

TEST(GgufTokenizer, UnknownKindsAreUnsupported) {
  Json metadata = ByteLevelMetadata();
  metadata["tokenizer.ggml.pre"] = "unheard-of";
  EXPECT_EQ(RefusalOf(metadata).code(), ErrorCode::kUnsupported);
  EXPECT_NE(RefusalOf(metadata).message().find("'unheard-of'"), std::string::npos);
  metadata = ByteLevelMetadata();
  metadata["tokenizer.ggml.model"] = "t5";
  EXPECT_EQ(RefusalOf(metadata).code(), ErrorCode::kUnsupported);
  EXPECT_NE(RefusalOf(metadata).message().find("'t5'"), std::string::npos);
}

TEST(GgufTokenizer, MalformedMetadataIsNamed) {
  const auto with = [](Json metadata, const char* key, Json value) {
    metadata[key] = std::move(value);
    const Error error = RefusalOf(metadata);
    EXPECT_EQ(error.code(), ErrorCode::kMalformed) << error.message();
    return error.message();
  };
  EXPECT_EQ(with(ByteLevelMetadata(), "tokenizer.ggml.token_type", {1, 1}),
            "tokenizer.ggml.token_type has 2 entries, tokenizer.ggml.tokens has 5");
  EXPECT_EQ(with(ByteLevelMetadata(), "tokenizer.ggml.token_type", {1, 1, 1, 3, 9}),
            "tokenizer.ggml.token_type[4] is 9, expected 1 to 6");
  EXPECT_EQ(with(ByteLevelMetadata(), "tokenizer.ggml.merges", Json::array({"ab"})),
            "tokenizer.ggml.merges[0] is 'ab', expected two parts with a space between");
  EXPECT_EQ(with(ByteLevelMetadata(), "tokenizer.ggml.eos_token_id", 5),
            "tokenizer of the GGUF file: end-of-sequence token id 5 is outside the vocabulary of 5");
  EXPECT_EQ(with(ByteLevelMetadata(), "tokenizer.ggml.bos_token_id", -7),
            "tokenizer.ggml.bos_token_id is -7, which is no token id");
  EXPECT_EQ(with(SentencePieceMetadata(), "tokenizer.ggml.scores", {1.0}),
            "tokenizer of the GGUF file: 1 token scores for 5 tokens");
  Json metadata = SentencePieceMetadata();
  metadata.erase("tokenizer.ggml.scores");
  EXPECT_EQ(RefusalOf(metadata).code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace haypile
