#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/generator.h"

namespace haypile {

// A generator for tests whose answers are computed from the prompt's text, with a byte-per-token codec (ids 1 to 256,
// 0 starts a sequence).
inline TextCodec ByteCodec(bool chat) {
  TextCodec codec;
  codec.encode = [](std::string_view text, bool start) {
    std::vector<int32_t> ids;
    if (start) ids.push_back(0);
    for (char c : text) ids.push_back(1 + static_cast<unsigned char>(c));
    return ids;
  };
  codec.decode = [](std::span<const int32_t> ids) {
    std::string text;
    for (int32_t id : ids) {
      if (id > 0) text += static_cast<char>(id - 1);
    }
    return text;
  };
  if (chat) {
    codec.encode_chat = [encode = codec.encode](std::string_view message) -> Result<std::vector<int32_t>> {
      return encode("<user>" + std::string(message) + "<model>", true);
    };
  }
  return codec;
}

class ScriptedGenerator : public TextGenerator {
 public:
  explicit ScriptedGenerator(std::function<std::string(const std::string& prompt)> answer)
      : answer_(std::move(answer)) {}

  Result<std::vector<int32_t>> Greedy(std::span<const int32_t> prompt, int max_new_tokens) override {
    const TextCodec codec = ByteCodec(false);
    std::vector<int32_t> ids = codec.encode(answer_(codec.decode(prompt)), false);
    if (ids.size() > static_cast<size_t>(max_new_tokens)) ids.resize(static_cast<size_t>(max_new_tokens));
    return ids;
  }

 private:
  std::function<std::string(const std::string& prompt)> answer_;
};

class FailingGenerator : public TextGenerator {
 public:
  Result<std::vector<int32_t>> Greedy(std::span<const int32_t>, int) override {
    return Error(ErrorCode::kOutOfBudget, "the pool is full");
  }
};

}  // namespace haypile
