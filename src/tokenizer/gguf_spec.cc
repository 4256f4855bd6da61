#include <fmt/format.h>

#include <limits>
#include <utility>

#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

Result<std::optional<int32_t>> GetId(const GgufFile& file, std::string_view key) {
  if (!file.Has(key)) return std::optional<int32_t>();
  HAYPILE_TRY_ASSIGN(const int64_t id, file.GetInt(key));
  // Writers put -1 (as 2^32 - 1) where there is none.
  if (id == -1 || id == std::numeric_limits<uint32_t>::max()) return std::optional<int32_t>();
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
    return Error(ErrorCode::kMalformed, fmt::format("{} is {}, which is no token id", key, id));
  }
  return std::optional<int32_t>(static_cast<int32_t>(id));
}

Result<bool> GetFlag(const GgufFile& file, std::string_view key, bool otherwise) {
  if (!file.Has(key)) return otherwise;
  return file.GetBool(key);
}

Status ReadVocabulary(const GgufFile& file, TokenizerSpec* spec) {
  HAYPILE_TRY_ASSIGN(spec->tokens, file.GetStringArray(kTokensKey));
  spec->types.assign(spec->tokens.size(), TokenType::kNormal);
  if (!file.Has(kTypesKey)) return {};
  HAYPILE_TRY_ASSIGN(const std::vector<int64_t> types, file.GetIntArray(kTypesKey));
  if (types.size() != spec->tokens.size()) {
    return Error(ErrorCode::kMalformed,
                 fmt::format("{} has {} entries, {} has {}", kTypesKey, types.size(), kTokensKey, spec->tokens.size()));
  }
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] < 1 || types[id] > 6) {
      return Error(ErrorCode::kMalformed, fmt::format("{}[{}] is {}, expected 1 to 6", kTypesKey, id, types[id]));
    }
    spec->types[id] = static_cast<TokenType>(types[id]);
    if (spec->types[id] == TokenType::kControl || spec->types[id] == TokenType::kUserDefined ||
        spec->types[id] == TokenType::kUnknown) {
      AddedToken added;
      added.id = static_cast<int32_t>(id);
      added.content = spec->tokens[id];
      added.control = spec->types[id] != TokenType::kUserDefined;
      spec->added_tokens.push_back(std::move(added));
    }
  }
  return {};
}

Status ReadByteLevel(const GgufFile& file, TokenizerSpec* spec) {
  spec->kind = TokenizerKind::kByteLevel;
  std::string pre = "default";
  if (file.Has(kPreKey)) {
    HAYPILE_TRY_ASSIGN(pre, file.GetString(kPreKey));
  }
  HAYPILE_TRY_ASSIGN(NamedPreTokenizer named, FindPreTokenizer(pre));
  spec->steps = std::move(named.steps);
  spec->ignore_merges = named.ignore_merges;
  spec->nfc = named.nfc;
  spec->add_bos = named.add_bos;
  HAYPILE_TRY_ASSIGN(const std::vector<std::string> merges, file.GetStringArray(kMergesKey));
  spec->merges.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& line = merges[rank];
    const size_t space = line.find(' ', 1);
    if (space == std::string::npos) {
      return Error(ErrorCode::kMalformed,
                   fmt::format("{}[{}] is '{}', expected two parts with a space between", kMergesKey, rank, line));
    }
    spec->merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return {};
}

Status ReadSentencePiece(const GgufFile& file, TokenizerSpec* spec) {
  spec->kind = TokenizerKind::kSentencePiece;
  spec->add_bos = true;
  HAYPILE_TRY_ASSIGN(spec->scores, file.GetFloatArray(kScoresKey));
  HAYPILE_TRY_ASSIGN(const bool prefix, GetFlag(file, "tokenizer.ggml.add_space_prefix", true));
  if (prefix) spec->space_prefix = SpacePrefix::kEverySegment;
  return {};
}

}  // namespace

Result<TokenizerSpec> TokenizerSpecFromGguf(const GgufFile& file) {
  TokenizerSpec spec;
  HAYPILE_TRY_ASSIGN(const std::string model, file.GetString(kModelKey));
  HAYPILE_TRY(ReadVocabulary(file, &spec));
  if (model == "gpt2") {
    HAYPILE_TRY(ReadByteLevel(file, &spec));
  } else if (model == "llama") {
    HAYPILE_TRY(ReadSentencePiece(file, &spec));
  } else {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("tokenizer '{}' ({}) is not known; known are gpt2, llama", model, kModelKey));
  }
  HAYPILE_TRY_ASSIGN(spec.bos_id, GetId(file, "tokenizer.ggml.bos_token_id"));
  HAYPILE_TRY_ASSIGN(spec.add_bos, GetFlag(file, "tokenizer.ggml.add_bos_token", spec.add_bos));
  if (spec.kind == TokenizerKind::kSentencePiece) {
    HAYPILE_TRY_ASSIGN(spec.unknown_id, GetId(file, "tokenizer.ggml.unknown_token_id"));
  }
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    HAYPILE_TRY_ASSIGN(const std::optional<int32_t> id, GetId(file, key));
    if (id) spec.eos_ids.push_back(*id);
  }
  CompleteEosIds(&spec);
  if (file.Has(kTemplateKey)) {
    HAYPILE_TRY_ASSIGN(spec.chat_template, file.GetString(kTemplateKey));
  }
  return spec;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::FromGguf(const GgufFile& file) {
  HAYPILE_TRY_ASSIGN(TokenizerSpec spec, TokenizerSpecFromGguf(file));
  auto tokenizer = FromSpec(std::move(spec));
  if (!tokenizer.ok()) return std::move(tokenizer).error().WithContext("tokenizer of the GGUF file");
  return tokenizer;
}

}  // namespace haypile
