#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {
namespace {

struct ReferenceLine {
  std::string text;
  std::vector<int32_t> ids;
};

// Ids made by two independent implementations that agree on every line; no BOS, special tokens parsed.
std::vector<ReferenceLine> ReadReference(const std::string& model) {
  auto content = ReadFile(fmt::format("{}/{}.jsonl", HAYPILE_TESTDATA_DIR, model));
  EXPECT_TRUE(content.ok());
  std::vector<ReferenceLine> lines;
  std::istringstream stream(content.ok() ? *content : "");
  for (std::string line; std::getline(stream, line);) {
    const Json json = ParseJson(line).value();
    lines.push_back({json["text"].get<std::string>(), json["ids"].get<std::vector<int32_t>>()});
  }
  return lines;
}

std::string ModelPath(const std::string& model) {
  const auto variable = [](const char* name) { return std::getenv(name) ? std::string(std::getenv(name)) : ""; };
  std::string cache = variable("HAYPILE_CACHE");
  if (cache.empty() && !variable("XDG_CACHE_HOME").empty()) cache = variable("XDG_CACHE_HOME") + "/haypile";
  if (cache.empty()) cache = variable("HOME") + "/.cache/haypile";
  return fmt::format("{}/models/{}.gguf", cache, model);
}

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class ReferenceIds : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = ModelPath(GetParam());
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << path << " is not there; fetch it with: haypile model get " << GetParam();
    }
    auto opened = GgufFile::Open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    file_ = *opened;
    auto made = Tokenizer::FromGguf(*file_);
    ASSERT_TRUE(made.ok()) << made.error().message();
    tokenizer_ = std::move(*made);
  }

  std::shared_ptr<const GgufFile> file_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(ReferenceIds, EveryLineEncodesToItsIds) {
  const auto lines = ReadReference(GetParam());
  ASSERT_EQ(lines.size(), 351u);
  for (const ReferenceLine& line : lines) EXPECT_EQ(tokenizer_->Encode(line.text), line.ids) << line.text;
}

TEST_P(ReferenceIds, DecodingGivesTheTextBack) {
  for (const ReferenceLine& line : ReadReference(GetParam())) {
    EXPECT_EQ(tokenizer_->Decode(line.ids, /*skip_special=*/false), line.text);
    StreamDecoder stream(*tokenizer_, /*skip_special=*/false);
    std::string streamed;
    for (const int32_t id : line.ids) streamed += stream.Push(id);
    EXPECT_EQ(streamed + stream.Finish(), line.text);
  }
}

TEST_P(ReferenceIds, LongTextsTakeNearlyLinearTime) {
  std::string prose;
  for (const ReferenceLine& line : ReadReference(GetParam())) prose += line.text + "\n";
  while (prose.size() < 50000) prose += prose;
  prose.resize(50000);
  const std::string texts[] = {prose, std::string(100000, 'a'), std::string(100000, ' '), std::string(100000, '\n'),
                               std::string(100000, '\x80')};
  for (const std::string& text : texts) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int32_t> ids = tokenizer_->Encode(text);
    // Quadratic merging takes minutes; the limit leaves room for sanitizers and busy machines.
    EXPECT_LT(MillisecondsSince(start), 3000) << text.substr(0, 20);
    EXPECT_TRUE(tokenizer_->Decode(ids, false) == text) << text.substr(0, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(DefaultModels, ReferenceIds, testing::Values("smollm2-135m", "gemma3-270m"),
                         [](const auto& test) { return std::string(test.param).substr(0, 6); });

class Smollm2 : public ReferenceIds {};

// The same vocabulary by way of a tokenizer.json, as the model's own repository writes it.
TEST_P(Smollm2, TokenizerJsonGivesTheSameIds) {
  const TokenizerSpec spec = TokenizerSpecFromGguf(*file_).value();
  std::string vocab, merges, added;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    vocab += fmt::format("{}{}:{}", id ? "," : "", Json(spec.tokens[id]).dump(), id);
  }
  for (const Merge& merge : spec.merges) {
    merges += fmt::format("{}{}", merges.empty() ? "" : ",", Json(merge.left + " " + merge.right).dump());
  }
  for (const AddedToken& token : spec.added_tokens) {
    added += fmt::format(R"({}{{"id":{},"content":{},"special":true}})", added.empty() ? "" : ",", token.id,
                         Json(token.content).dump());
  }
  HuggingFaceFiles files;
  files.tokenizer_json =
      fmt::format(R"({{"added_tokens":[{}],"normalizer":null,"pre_tokenizer":{{"type":"Sequence","pretokenizers":[)"
                  R"({{"type":"Digits","individual_digits":true}},{{"type":"ByteLevel","add_prefix_space":false}}]}},)"
                  R"("model":{{"type":"BPE","vocab":{{{}}},"merges":[{}]}}}})",
                  added, vocab, merges);
  auto from_json = TokenizerSpecFromHuggingFace(files);
  ASSERT_TRUE(from_json.ok()) << from_json.error().message();
  auto tokenizer = Tokenizer::FromSpec(std::move(*from_json));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  for (const ReferenceLine& line : ReadReference(GetParam())) {
    EXPECT_EQ((*tokenizer)->Encode(line.text), line.ids) << line.text;
  }
}

TEST_P(Smollm2, KnowsItsSpecialTokensAndTemplate) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152);
  EXPECT_FALSE(tokenizer_->bos());
  EXPECT_EQ(tokenizer_->eos_ids(), (std::vector<int32_t>{0, 2}));
  EXPECT_TRUE(tokenizer_->IsEos(2));
  EXPECT_EQ(tokenizer_->TokenId("<|im_start|>"), 1);
  ASSERT_TRUE(tokenizer_->has_chat_template());
  const ChatMessage hello{"user", "Hello"};
  EXPECT_EQ(tokenizer_->ApplyChatTemplate({&hello, 1}, true).value(),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
}

TEST_P(Smollm2, ControlTokensArePlainTextWhenNotParsed) {
  const std::vector<int32_t> ids = tokenizer_->Encode("<|im_end|>", /*parse_special=*/false);
  EXPECT_GT(ids.size(), 1u);
  for (const int32_t id : ids) EXPECT_FALSE(tokenizer_->IsSpecial(id));
  EXPECT_EQ(tokenizer_->Decode(ids), "<|im_end|>");
}

INSTANTIATE_TEST_SUITE_P(Model, Smollm2, testing::Values("smollm2-135m"));

class Gemma3 : public ReferenceIds {};

TEST_P(Gemma3, KnowsItsSpecialTokensAndHasNoTemplate) {
  EXPECT_EQ(tokenizer_->vocab_size(), 262144);
  EXPECT_EQ(tokenizer_->bos(), 2);
  EXPECT_EQ(tokenizer_->eos_ids(), (std::vector<int32_t>{1, 106}));
  EXPECT_FALSE(tokenizer_->has_chat_template());
  const ChatMessage hello{"user", "Hello"};
  EXPECT_EQ(tokenizer_->ApplyChatTemplate({&hello, 1}, true).error().code(), ErrorCode::kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Model, Gemma3, testing::Values("gemma3-270m"));

}  // namespace
}  // namespace haypile
