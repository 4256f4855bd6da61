#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/json_scanner.h"
#include "tokenizer/hugging_face_steps.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

namespace haypile {
namespace {

constexpr int64_t kMaxTokenId = (int64_t{1} << 24) - 1;
constexpr int64_t kMaxHoles = int64_t{1} << 16;

Error Malformed(std::string message) { return Error(ErrorCode::kMalformed, "tokenizer.json: " + std::move(message)); }

Error Unsupported(std::string message) {
  return Error(ErrorCode::kUnsupported, "tokenizer.json: " + std::move(message));
}

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool FlagOr(const Json& object, const char* key, bool otherwise) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

Result<int32_t> TokenIdOf(const Json* value, std::string_view what) {
  if (value == nullptr || !value->is_number_integer() || value->get<int64_t>() < 0 ||
      value->get<int64_t>() > kMaxTokenId) {
    return Malformed(fmt::format("{} has no id between 0 and {}", what, kMaxTokenId));
  }
  return static_cast<int32_t>(value->get<int64_t>());
}

Status SetToken(int32_t id, const std::string& text, TokenType type, TokenizerSpec* spec) {
  if (static_cast<size_t>(id) >= spec->tokens.size()) {
    spec->tokens.resize(id + 1);
    spec->types.resize(id + 1, TokenType::kUnused);
  }
  std::string& slot = spec->tokens[id];
  if (!slot.empty() && slot != text) return Malformed(fmt::format("'{}' and '{}' both have id {}", slot, text, id));
  slot = text;
  spec->types[id] = type;
  return {};
}

using Vocabulary = std::vector<std::pair<std::string, int64_t>>;

// Reads model.vocab in linear time and returns the text with that object blanked out, every other byte in its place:
// a document tree that keeps order looks for each of 262,144 keys among all before it.
Result<std::string> TakeVocabulary(const std::string& text, Vocabulary* vocabulary) {
  std::string rest = text;
  JsonScanner scanner(text, "tokenizer.json", 0);
  const auto read_vocab = [&]() -> Status {
    const size_t begin = scanner.offset();
    HAYPILE_TRY(scanner.ReadObject([&](const std::string& token) -> Status {
      HAYPILE_TRY_ASSIGN(const int64_t id, scanner.ReadInt());
      vocabulary->emplace_back(token, id);
      return {};
    }));
    const size_t end = scanner.offset();
    rest.replace(begin, end - begin, std::string(end - begin, ' '));
    rest.replace(begin, 2, "{}");
    return {};
  };
  const auto read_model = [&]() -> Status {
    return scanner.ReadObject(
        [&](const std::string& key) { return key == "vocab" ? read_vocab() : scanner.SkipValue(); });
  };
  HAYPILE_TRY(
      scanner.ReadObject([&](const std::string& key) { return key == "model" ? read_model() : scanner.SkipValue(); }));
  HAYPILE_TRY(scanner.ExpectEnd());
  return rest;
}

Status ReadVocabulary(const Vocabulary& vocabulary, TokenizerSpec* spec) {
  if (vocabulary.empty()) return Malformed("model.vocab is missing or empty");
  for (const auto& [text, id] : vocabulary) {
    // A few ids far apart would make a small file ask for a large table.
    if (id < 0 || id > std::min<int64_t>(kMaxTokenId, 2 * static_cast<int64_t>(vocabulary.size()) + kMaxHoles)) {
      return Malformed(fmt::format("model.vocab has {} tokens, but '{}' has id {}", vocabulary.size(), text, id));
    }
    HAYPILE_TRY(SetToken(static_cast<int32_t>(id), text, TokenType::kNormal, spec));
  }
  return {};
}

Status ReadMerges(const Json& model, TokenizerSpec* spec) {
  const Json* merges = Find(model, "merges");
  if (merges == nullptr || !merges->is_array()) return Malformed("model.merges is missing or no array");
  spec->merges.reserve(merges->size());
  for (const Json& merge : *merges) {
    const size_t rank = spec->merges.size();
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec->merges.push_back({merge[0].get<std::string>(), merge[1].get<std::string>()});
      continue;
    }
    const std::string line = merge.is_string() ? merge.get<std::string>() : "";
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      return Malformed(fmt::format("model.merges[{}] is neither two strings nor \"left right\"", rank));
    }
    spec->merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return {};
}

Status CheckModelFeatures(const Json& model) {
  const Json* type = Find(model, "type");
  if (type != nullptr && *type != "BPE") {
    return Unsupported(fmt::format("model type {} is not supported, only BPE is", DumpJson(*type, -1)));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json* value = Find(model, key);
    if (value != nullptr && *value != "") {
      return Unsupported(fmt::format("model.{} {} is not supported", key, DumpJson(*value, -1)));
    }
  }
  return {};
}

void MarkByteTokens(TokenizerSpec* spec) {
  for (size_t id = 0; id < spec->tokens.size(); ++id) {
    const std::string& token = spec->tokens[id];
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const bool is_byte = token.size() == 6 && token.starts_with("<0x") && token[5] == '>' &&
                         kHex.find(token[3]) != kHex.npos && kHex.find(token[4]) != kHex.npos;
    if (is_byte) spec->types[id] = TokenType::kByte;
  }
}

// A token named by text, or by an object with "content".
std::optional<int32_t> IdOfNamed(const Json* token, const TokenizerSpec& spec) {
  if (token != nullptr && token->is_object()) token = Find(*token, "content");
  if (token == nullptr || !token->is_string()) return std::nullopt;
  const auto text = token->get<std::string>();
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id] == text) return static_cast<int32_t>(id);
  }
  return std::nullopt;
}

Status ReadModel(const Json& root, const Vocabulary& vocabulary, TokenizerSpec* spec) {
  const Json* model = Find(root, "model");
  if (model == nullptr || !model->is_object()) return Malformed("'model' is missing or no object");
  HAYPILE_TRY(CheckModelFeatures(*model));
  HAYPILE_TRY(ReadVocabulary(vocabulary, spec));
  HAYPILE_TRY(ReadMerges(*model, spec));
  spec->ignore_merges = FlagOr(*model, "ignore_merges", false);
  if (FlagOr(*model, "byte_fallback", false)) MarkByteTokens(spec);
  const Json* unknown = Find(*model, "unk_token");
  if (unknown != nullptr) spec->unknown_id = IdOfNamed(unknown, *spec);
  return {};
}

Status ReadAddedTokens(const Json& root, TokenizerSpec* spec) {
  const Json* list = Find(root, "added_tokens");
  if (list == nullptr) return {};
  if (!list->is_array()) return Malformed("'added_tokens' is no array");
  const auto vocabulary = static_cast<int64_t>(spec->tokens.size());
  for (const Json& entry : *list) {
    const Json* content = Find(entry, "content");
    if (content == nullptr || !content->is_string()) return Malformed("an added token has no content");
    AddedToken added;
    added.content = content->get<std::string>();
    HAYPILE_TRY_ASSIGN(added.id, TokenIdOf(Find(entry, "id"), fmt::format("added token '{}'", added.content)));
    if (added.id > vocabulary + static_cast<int64_t>(list->size()) + kMaxHoles) {
      return Malformed(fmt::format("added token '{}' has id {}, far above the others", added.content, added.id));
    }
    if (FlagOr(entry, "single_word", false)) {
      return Unsupported(fmt::format("added token '{}' is single_word, which is not supported", added.content));
    }
    added.control = FlagOr(entry, "special", false);
    added.lstrip = FlagOr(entry, "lstrip", false);
    added.rstrip = FlagOr(entry, "rstrip", false);
    added.normalized = FlagOr(entry, "normalized", false);
    HAYPILE_TRY(SetToken(added.id, added.content, added.control ? TokenType::kControl : TokenType::kUserDefined, spec));
    spec->added_tokens.push_back(std::move(added));
  }
  return {};
}

// The token that the post-processor puts in front of a single sequence.
std::optional<int32_t> LeadingTemplateToken(const Json* processor, const TokenizerSpec& spec) {
  if (processor == nullptr) return std::nullopt;
  if (const Json* list = Find(*processor, "processors"); list != nullptr && list->is_array()) {
    for (const Json& part : *list) {
      if (const auto id = LeadingTemplateToken(&part, spec)) return id;
    }
    return std::nullopt;
  }
  const Json* type = Find(*processor, "type");
  const Json* single = Find(*processor, "single");
  if (type == nullptr || *type != "TemplateProcessing" || single == nullptr || !single->is_array() || single->empty()) {
    return std::nullopt;
  }
  const Json* special = Find((*single)[0], "SpecialToken");
  return special == nullptr ? std::nullopt : IdOfNamed(Find(*special, "id"), spec);
}

Status ReadConfig(const Json& root, const std::string& text, TokenizerSpec* spec) {
  const std::optional<int32_t> leading = LeadingTemplateToken(Find(root, "post_processor"), *spec);
  spec->bos_id = leading;
  spec->add_bos = leading.has_value();
  if (text.empty()) return {};
  auto parsed = ParseJson(text);
  if (!parsed.ok()) return std::move(parsed).error().WithContext("tokenizer_config.json");
  const Json& config = *parsed;
  if (!spec->bos_id) spec->bos_id = IdOfNamed(Find(config, "bos_token"), *spec);
  spec->add_bos = FlagOr(config, "add_bos_token", spec->add_bos) && spec->bos_id;
  if (const auto eos = IdOfNamed(Find(config, "eos_token"), *spec)) spec->eos_ids.push_back(*eos);
  const Json* chat_template = Find(config, "chat_template");
  if (chat_template == nullptr) return {};
  if (chat_template->is_string()) spec->chat_template = chat_template->get<std::string>();
  if (!chat_template->is_array()) return {};
  for (const Json& entry : *chat_template) {
    const Json* name = Find(entry, "name");
    const Json* source = Find(entry, "template");
    if (name != nullptr && *name == "default" && source != nullptr && source->is_string()) {
      spec->chat_template = source->get<std::string>();
    }
  }
  return {};
}

Status ReadGenerationConfig(const std::string& text, TokenizerSpec* spec) {
  if (text.empty()) return {};
  auto parsed = ParseJson(text);
  if (!parsed.ok()) return std::move(parsed).error().WithContext("generation_config.json");
  const Json* eos = Find(*parsed, "eos_token_id");
  if (eos == nullptr) return {};
  const Json list = eos->is_array() ? *eos : Json::array({*eos});
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() >= static_cast<int64_t>(spec->tokens.size())) {
      return Error(ErrorCode::kMalformed, fmt::format("generation_config.json: eos_token_id {} is no token of the "
                                                      "vocabulary of {}",
                                                      DumpJson(id, -1), spec->tokens.size()));
    }
    spec->eos_ids.push_back(id.get<int32_t>());
  }
  return {};
}

Result<std::string> ReadIfPresent(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::string();
  return ReadFile(path.string());
}

}  // namespace

Result<TokenizerSpec> TokenizerSpecFromHuggingFace(const HuggingFaceFiles& files) {
  Vocabulary vocabulary;
  HAYPILE_TRY_ASSIGN(const std::string without_vocabulary, TakeVocabulary(files.tokenizer_json, &vocabulary));
  auto parsed = ParseJson(without_vocabulary);
  if (!parsed.ok()) return std::move(parsed).error().WithContext("tokenizer.json");
  const Json& root = *parsed;
  if (!root.is_object()) return Malformed("the top is no object");
  TokenizerSpec spec;
  HAYPILE_TRY(ReadModel(root, vocabulary, &spec));
  HAYPILE_TRY(ReadAddedTokens(root, &spec));
  HAYPILE_TRY(ReadHuggingFaceSteps(root, &spec));
  HAYPILE_TRY(ReadConfig(root, files.tokenizer_config_json, &spec));
  HAYPILE_TRY(ReadGenerationConfig(files.generation_config_json, &spec));
  if (!files.chat_template_jinja.empty()) spec.chat_template = files.chat_template_jinja;
  CompleteEosIds(&spec);
  return spec;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::FromFolder(const std::string& folder) {
  const std::filesystem::path base(folder);
  HuggingFaceFiles files;
  HAYPILE_TRY_ASSIGN(files.tokenizer_json, ReadFile((base / "tokenizer.json").string()));
  HAYPILE_TRY_ASSIGN(files.tokenizer_config_json, ReadIfPresent(base / "tokenizer_config.json"));
  HAYPILE_TRY_ASSIGN(files.generation_config_json, ReadIfPresent(base / "generation_config.json"));
  HAYPILE_TRY_ASSIGN(files.chat_template_jinja, ReadIfPresent(base / "chat_template.jinja"));
  auto spec = TokenizerSpecFromHuggingFace(files);
  if (!spec.ok()) return std::move(spec).error().WithContext(folder);
  auto tokenizer = FromSpec(std::move(*spec));
  if (!tokenizer.ok()) return std::move(tokenizer).error().WithContext(folder);
  return tokenizer;
}

}  // namespace haypile
