#include <fmt/format.h>

#include <iterator>

#include "tokenizer/pre_tokenizer.h"

namespace haypile {
namespace {

// The patterns as the models' own tokenizer.json files have them.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigit = R"(\p{N})";

struct Row {
  std::string_view name;
  std::string_view first, second;  // patterns; the second may be ""
  bool ignore_merges, add_bos, nfc;
};

constexpr Row kRows[] = {
    {"gpt-2", kGpt2, "", false, false, false},
    {"smollm", kOneDigit, kGpt2, false, false, false},
    {"starcoder", kOneDigit, kGpt2, false, false, false},
    {"llama-bpe", kLlama3, "", true, true, false},
    {"llama3", kLlama3, "", true, true, false},
    {"llama-v3", kLlama3, "", true, true, false},
    {"qwen2", kQwen2, "", false, false, true},
    {"deepseek-r1-qwen", kQwen2, "", false, false, true},
    {"tekken", kTekken, "", true, true, false},
};

// What llama.cpp does with a byte-level file that names no pre-tokenizer.
constexpr std::string_view kDefaultPatterns[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"};

}  // namespace

std::string_view Gpt2Pattern() { return kGpt2; }

Result<NamedPreTokenizer> FindPreTokenizer(std::string_view name) {
  NamedPreTokenizer result;
  if (name == "default") {
    for (const std::string_view pattern : kDefaultPatterns) result.steps.push_back({std::string(pattern), {}});
    return result;
  }
  std::string known = "default";
  for (const Row& row : kRows) {
    known += fmt::format(", {}", row.name);
    if (row.name != name) continue;
    result.steps.push_back({std::string(row.first), {}});
    if (!row.second.empty()) result.steps.push_back({std::string(row.second), {}});
    result.ignore_merges = row.ignore_merges;
    result.add_bos = row.add_bos;
    result.nfc = row.nfc;
    return result;
  }
  return Error(ErrorCode::kUnsupported, fmt::format("pre-tokenizer '{}' is not known; known are {}", name, known));
}

}  // namespace haypile
