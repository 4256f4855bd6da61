#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> Load(const std::string& name) {
  auto made = Tokenizer::FromFolder(std::string(HAYPILE_TESTDATA_DIR) + "/" + name);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message());
  return std::move(made).value();
}

TEST(HuggingFaceFolder, ByteLevel) {
  const auto tokenizer = Load("byte_level");
  // Merged tokens follow the 256 bytes: he ll hell hello " w" or " wor" ld " world" e-acute 12, then the added ones.
  EXPECT_EQ(tokenizer->Encode("hello world"), (Ids{259, 264}));
  EXPECT_EQ(tokenizer->Encode("12"), (Ids{'1', '2'})) << "digits stand alone, whatever the merges";
  EXPECT_EQ(tokenizer->Encode("e\u0301"), (Ids{265})) << "NFC comes first";
  EXPECT_EQ(tokenizer->Encode("<|im_start|>hell<tool>"), (Ids{267, 258, 269}));
  EXPECT_EQ(tokenizer->Encode("he <mask> he"), (Ids{256, 270, 256}));
  EXPECT_EQ(tokenizer->vocab_size(), 272);
  EXPECT_EQ(tokenizer->bos(), 271) << "the post-processor puts it in front";
  EXPECT_EQ(tokenizer->eos_ids(), (Ids{268, 271}));
  const ChatMessage hello{"user", "hello"};
  EXPECT_EQ(tokenizer->ApplyChatTemplate({&hello, 1}, true).value(),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
}

TEST(HuggingFaceFolder, MetaspaceWithByteFallback) {
  const auto tokenizer = Load("metaspace");
  EXPECT_EQ(tokenizer->Encode("hello wo"), (Ids{271, 273}));
  EXPECT_EQ(tokenizer->Encode(" hello</s>h"), (Ids{271, 2, 260})) << "the prefix is first only, and only if missing";
  EXPECT_EQ(tokenizer->Encode("h\u00E9").back(), 3 + 0xA9);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("hello\xFF wo")), " hello\xFF wo");
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos_ids(), (Ids{2}));
  EXPECT_FALSE(tokenizer->has_chat_template());
}

TEST(HuggingFaceFolder, MissingFolderIsNotFound) {
  const auto result = Tokenizer::FromFolder("/nonexistent");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kNotFound);
}

// A small valid tokenizer.json with one part replaced.
std::string ErrorWith(const std::string& normalizer, const std::string& pre_tokenizer, const std::string& model,
                      const std::string& added = "[]", const std::string& config = "",
                      const std::string& generation = "") {
  HuggingFaceFiles files;
  files.tokenizer_json = R"({"added_tokens":)" + added + R"(,"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" +
                         pre_tokenizer + R"(,"model":)" + model + "}";
  files.tokenizer_config_json = config;
  files.generation_config_json = generation;
  auto spec = TokenizerSpecFromHuggingFace(files);
  if (!spec.ok()) return std::string(InfoOf(spec.error().code()).name) + ": " + spec.error().message();
  auto made = Tokenizer::FromSpec(std::move(*spec));
  return made.ok() ? "fine" : std::string(InfoOf(made.error().code()).name) + ": " + made.error().message();
}

const std::string kByteLevel = R"({"type":"ByteLevel","add_prefix_space":false})";
const std::string kModel = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})";

TEST(HuggingFaceJson, AcceptsTheBase) { EXPECT_EQ(ErrorWith("null", kByteLevel, kModel), "fine"); }

TEST(HuggingFaceJson, NamesWhatIsMalformed) {
  const auto with_model = [](const std::string& model) { return ErrorWith("null", kByteLevel, model); };
  EXPECT_EQ(with_model("null"), "malformed: tokenizer.json: byte 107: JSON: expected '{'");
  EXPECT_EQ(with_model(R"({"merges":[]})"), "malformed: tokenizer.json: model.vocab is missing or empty");
  EXPECT_EQ(with_model(R"({"vocab":{"a":0}})"), "malformed: tokenizer.json: model.merges is missing or no array");
  EXPECT_EQ(with_model(R"({"vocab":{"a":0,"b":0},"merges":[]})"),
            "malformed: tokenizer.json: 'a' and 'b' both have id 0");
  EXPECT_EQ(with_model(R"({"vocab":{"a":999999999},"merges":[]})"),
            "malformed: tokenizer.json: model.vocab has 1 tokens, but 'a' has id 999999999");
  EXPECT_EQ(with_model(R"({"vocab":{"a":0},"merges":[["a"]]})"),
            "malformed: tokenizer.json: model.merges[0] is neither two strings nor \"left right\"");
  EXPECT_EQ(with_model(R"({"vocab":{"a":0},"merges":["a a"]})"),
            "malformed: merge 0 ('a' with 'a'): 'aa' is not in the vocabulary");
  EXPECT_EQ(ErrorWith("null", kByteLevel, kModel, R"([{"content":"x","id":-3}])"),
            "malformed: tokenizer.json: added token 'x' has no id between 0 and 16777215");
  EXPECT_EQ(ErrorWith("null", kByteLevel, kModel, R"([{"content":"x","id":16777215}])"),
            "malformed: tokenizer.json: added token 'x' has id 16777215, far above the others");
  EXPECT_EQ(ErrorWith("null", kByteLevel, kModel, "[]", "", R"({"eos_token_id":7})"),
            "malformed: generation_config.json: eos_token_id 7 is no token of the vocabulary of 3");
  EXPECT_EQ(ErrorWith("null", R"({"type":"Sequence"})", kModel),
            "malformed: tokenizer.json: pre_tokenizer Sequence has no 'pretokenizers'");
}

TEST(HuggingFaceJson, BrokenTextIsMalformed) {
  const std::string whole = ReadFile(HAYPILE_TESTDATA_DIR "/metaspace/tokenizer.json").value();
  for (const size_t size : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 2}) {
    HuggingFaceFiles files;
    files.tokenizer_json = whole.substr(0, size);
    const auto spec = TokenizerSpecFromHuggingFace(files);
    ASSERT_FALSE(spec.ok());
    EXPECT_EQ(spec.error().code(), ErrorCode::kMalformed);
    EXPECT_TRUE(spec.error().message().starts_with("tokenizer.json")) << spec.error().message();
  }
  EXPECT_TRUE(ErrorWith("null", kByteLevel, kModel, "[]", "{").starts_with("malformed: tokenizer_config.json: "));
}

TEST(HuggingFaceJson, NamesWhatIsUnsupported) {
  EXPECT_EQ(ErrorWith("null", kByteLevel, R"({"type":"Unigram","vocab":{"a":0},"merges":[]})"),
            "unsupported: tokenizer.json: model type \"Unigram\" is not supported, only BPE is");
  EXPECT_EQ(ErrorWith("null", kByteLevel, R"({"end_of_word_suffix":"</w>","vocab":{"a":0},"merges":[]})"),
            "unsupported: tokenizer.json: model.end_of_word_suffix \"</w>\" is not supported");
  EXPECT_EQ(ErrorWith(R"({"type":"Lowercase"})", kByteLevel, kModel),
            "unsupported: tokenizer.json: normalizer {\"type\":\"Lowercase\"} is not supported");
  EXPECT_EQ(ErrorWith("null", R"({"type":"ByteLevel","add_prefix_space":true})", kModel),
            "unsupported: tokenizer.json: pre_tokenizer {\"type\":\"ByteLevel\",\"add_prefix_space\":true} is not "
            "supported");
  EXPECT_EQ(ErrorWith("null", "null", kModel),
            "unsupported: tokenizer.json: expected either a ByteLevel pre_tokenizer, or spaces replaced by U+2581");
  EXPECT_EQ(ErrorWith("null", kByteLevel, kModel, R"([{"content":"x","id":3,"single_word":true}])"),
            "unsupported: tokenizer.json: added token 'x' is single_word, which is not supported");
}

}  // namespace
}  // namespace haypile
