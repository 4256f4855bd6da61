#include "probe/probe_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "engines/http_client.h"
#include "report/text_table.h"

namespace haypile {
namespace {

constexpr double kModelListSeconds = 15.0;
constexpr uint64_t kModelListBytes = uint64_t{4} << 20;
// 200 bytes a token of an answer with the text of every token and its most likely one is usual.
constexpr uint64_t kAnswerBytes = uint64_t{256} << 20;
constexpr size_t kMessageBytes = 300;
// Rounded sums of exponentials leave log-probabilities a little above 0.
constexpr double kMostLogProb = 1e-3;
// vLLM writes -9999 where it has -inf.
constexpr double kLeastLogProb = -9000;
constexpr std::string_view kTokenId = "token_id:";

const char* const kWhoReturnsThem =
    "vLLM (/v1/completions with echo) and SGLang (/generate) return them; for llama.cpp, whose server does not, "
    "llama-perplexity --kl-divergence compares two cache types";

Error Unusable(const std::string& what) { return Error(ErrorCode::kNetwork, what); }

// The URL without what /v1/... is appended to.
std::string BaseUrl(std::string url) {
  const auto drop = [&url](std::string_view end) {
    if (url.ends_with(end)) url.resize(url.size() - end.size());
  };
  drop("/");
  drop("/v1");
  drop("/");
  return url;
}

std::string Short(const std::string& text) {
  return WithoutControls(text.size() <= kMessageBytes ? text : text.substr(0, kMessageBytes) + "...");
}

// What an error's body says, in the forms of OpenAI, vLLM, SGLang and FastAPI.
std::string MessageOf(const std::string& body) {
  const auto json = ParseJson(body);
  if (!json.ok() || !json->is_object()) return Short(body);
  for (const Json* place : {json->contains("error") ? &(*json)["error"] : nullptr, &*json}) {
    if (place == nullptr) continue;
    if (place->is_string()) return Short(place->get<std::string>());
    for (const char* name : {"message", "detail"}) {
      if (!place->is_object() || !place->contains(name)) continue;
      const Json& text = (*place)[name];
      return Short(text.is_string() ? text.get<std::string>() : DumpJson(text, -1));
    }
  }
  return Short(body);
}

bool Speaks(const std::string& message, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return message.find(word) != std::string::npos; });
}

Error StatusError(const std::string& url, const HttpAnswer& answer) {
  const std::string message = MessageOf(answer.body);
  std::string help;
  if (answer.status == 401 || answer.status == 403) {
    help = "; give the server's key with --api-key or in the environment variable HAYPILE_API_KEY";
  } else if (answer.status / 100 == 3) {
    help = "; redirects are not followed: give the address that it leads to";
  } else if (Speaks(message, {"greater than max allowed"})) {
    help = "; start the server with --max-logprobs 1 or more";
  } else if (Speaks(message, {"echo", "logprob"})) {
    help = std::string("; the probe needs the log-probabilities of a prompt: ") + kWhoReturnsThem;
  } else if (Speaks(message, {"context length", "max_model_len", "maximum length", "too long", "exceeds"})) {
    help = "; give fewer with --probe-tokens";
  } else if (Speaks(message, {"out of vocabulary", "vocab"})) {
    help = "; the server's model has another vocabulary than the checkpoint: name the checkpoint that it serves";
  } else if (answer.status == 404) {
    help = "; is this the address of an OpenAI-compatible server (vLLM, SGLang), and the model's name right?";
  } else if (answer.status / 100 == 5) {
    help = "; the server is up and cannot answer: look at its log";
  }
  return Unusable(fmt::format("'{}' answered with status {}{}{}{}", url, answer.status, message.empty() ? "" : ": ",
                              message, help));
}

Result<std::string> AskFor200(const HttpRequest& request) {
  HAYPILE_TRY_ASSIGN(HttpAnswer answer, AskHttp(request));
  if (answer.status != 200) return StatusError(request.url, answer);
  return std::move(answer.body);
}

// A list of models as the server has it, or kNetwork.
Result<Json> ModelList(const std::string& body, const std::string& url) {
  const auto json = ParseJson(body);
  const bool list = json.ok() && json->is_object() && json->contains("data") && (*json)["data"].is_array();
  if (!list) {
    return Unusable("'" + url + "': the answer is no list of models; expected an OpenAI-compatible server");
  }
  Json models = Json::array();
  for (const Json& model : (*json)["data"]) {
    if (model.is_object() && model.contains("id") && model["id"].is_string()) models.push_back(model);
  }
  if (models.empty()) return Unusable("'" + url + "': the server names no model");
  return models;
}

std::string NameOfModel(const Json& model) { return model["id"].get<std::string>(); }

std::string AllNames(const Json& models) {
  std::vector<std::string> names;
  for (const Json& model : models) names.push_back(WithoutControls(NameOfModel(model)));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The model that was asked for, or the only one; adapters, which name a parent, stand back.
Result<Json> ChosenModel(const Json& models, const std::string& asked) {
  Json whole = Json::array();
  for (const Json& model : models) {
    if (!asked.empty() && NameOfModel(model) == asked) return model;
    if (!model.contains("parent") || model["parent"].is_null()) whole.push_back(model);
  }
  if (!asked.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "--served-model-name: the server has no '" + asked + "'; it serves " + AllNames(models));
  }
  if (whole.size() == 1) return whole[0];
  return Error(ErrorCode::kInvalidArgument,
               "the server has several models; name one with --served-model-name: " + AllNames(models));
}

std::string EngineOf(const Json& model) {
  if (!model.contains("owned_by") || !model["owned_by"].is_string()) return "";
  return Short(model["owned_by"].get<std::string>());
}

// One entry of a list of log-probabilities.
Result<double> UsableLogProb(const Json& value, size_t position) {
  if (!value.is_number()) {
    return Unusable(fmt::format("the server gives no number as log-probability of token {}: {}", position,
                                Short(DumpJson(value, -1))));
  }
  const double log_prob = value.get<double>();
  if (std::isfinite(log_prob) && log_prob > kLeastLogProb && log_prob <= kMostLogProb) return log_prob;
  const char* help = log_prob > 0
                         ? "; a log-probability is at most 0: are these logits (vLLM: --logprobs-mode raw_logprobs)?"
                         : "; the model gives this token no chance at all: its cache may be broken";
  return Unusable(fmt::format("the server's log-probability of token {} is {:g}{}", position, log_prob, help));
}

Error TooFew(size_t count, size_t wanted) {
  return Unusable(
      fmt::format("the server returned log-probabilities of {} tokens, and the prompt has {}: it does not return those "
                  "of a prompt; {}",
                  count, wanted, kWhoReturnsThem));
}

Error OtherTokens(size_t position, const std::string& theirs, int32_t ours) {
  return Unusable(
      fmt::format("the server's token {} is {}, and {} was sent: its model has another tokenizer than the "
                  "checkpoint; name the checkpoint that it serves",
                  position, Short(theirs), ours));
}

Status CheckPromptTokens(const Json& usage, size_t wanted) {
  if (!usage.is_object() || !usage.contains("prompt_tokens") || !usage["prompt_tokens"].is_number_integer()) return {};
  const auto counted = usage["prompt_tokens"].get<int64_t>();
  if (counted == static_cast<int64_t>(wanted)) return {};
  return Unusable(
      fmt::format("the server counted {} prompt tokens where {} were sent: it changes the prompt (a token put "
                  "in front, or a cut), so its log-probabilities belong to another text",
                  counted, wanted));
}

// vLLM's own field: for each token an object of id -> {"logprob": ...}.
Result<PromptLogProbs> FromPromptField(const Json& list, std::span<const int32_t> tokens) {
  if (list.size() != tokens.size()) return TooFew(list.size(), tokens.size());
  PromptLogProbs out;
  for (size_t i = 1; i < tokens.size(); ++i) {
    const std::string id = std::to_string(tokens[i]);
    if (!list[i].is_object() || !list[i].contains(id)) return OtherTokens(i, DumpJson(list[i], -1), tokens[i]);
    const Json& entry = list[i][id];
    HAYPILE_TRY_ASSIGN(const double log_prob,
                       UsableLogProb(entry.is_object() && entry.contains("logprob") ? entry["logprob"] : entry, i));
    out.log_probs.push_back(log_prob);
  }
  out.ids_confirmed = true;
  return out;
}

Result<PromptLogProbs> FromTokenLists(const Json& lists, std::span<const int32_t> tokens) {
  const Json& values = lists["token_logprobs"];
  if (values.size() < tokens.size()) return TooFew(values.size(), tokens.size());
  const bool named = lists.contains("tokens") && lists["tokens"].is_array() && lists["tokens"].size() == values.size();
  PromptLogProbs out;
  size_t confirmed = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Json name = named ? lists["tokens"][i] : Json(nullptr);
    if (name.is_string() && name.get<std::string>().starts_with(kTokenId)) {
      const std::string id = name.get<std::string>().substr(kTokenId.size());
      if (id != std::to_string(tokens[i])) return OtherTokens(i, id, tokens[i]);
      ++confirmed;
    }
    if (i == 0) continue;
    HAYPILE_TRY_ASSIGN(const double log_prob, UsableLogProb(values[i], i));
    out.log_probs.push_back(log_prob);
  }
  out.ids_confirmed = confirmed == tokens.size();
  return out;
}

HttpRequest Post(const ServerAccess& access, const std::string& url, const Json& body) {
  HttpRequest request{url, DumpJson(body, -1), access.api_key, {}, access.stop};
  request.limits = {access.answer_s, access.answer_s, kAnswerBytes};
  return request;
}

}  // namespace

Result<ServedModel> FindServedModel(const ServerAccess& access) {
  ServedModel served;
  served.base_url = BaseUrl(access.url);
  HttpRequest request{served.base_url + "/v1/models", "", access.api_key, {}, access.stop};
  const double seconds = std::min(kModelListSeconds, access.answer_s);
  request.limits = {seconds, seconds, kModelListBytes};
  HAYPILE_TRY_ASSIGN(const std::string body, AskFor200(request));
  HAYPILE_TRY_ASSIGN(const Json models, ModelList(body, request.url));
  HAYPILE_TRY_ASSIGN(const Json model, ChosenModel(models, access.model));
  served.model = NameOfModel(model);
  served.engine = EngineOf(model);
  if (model.contains("max_model_len") && model["max_model_len"].is_number_integer()) {
    served.max_model_len = model["max_model_len"].get<int64_t>();
  }
  return served;
}

Result<PromptLogProbs> ParseCompletionLogProbs(const std::string& body, std::span<const int32_t> tokens) {
  const auto json = ParseJson(body);
  if (!json.ok()) return Unusable("the answer is not JSON: " + json.error().message());
  if (!json->is_object() || !json->contains("choices") || !(*json)["choices"].is_array() ||
      (*json)["choices"].empty() || !(*json)["choices"][0].is_object()) {
    return Unusable("the answer lacks 'choices'; expected that of /v1/completions");
  }
  if (json->contains("usage")) HAYPILE_TRY(CheckPromptTokens((*json)["usage"], tokens.size()));
  const Json& choice = (*json)["choices"][0];
  if (choice.contains("prompt_logprobs") && choice["prompt_logprobs"].is_array()) {
    return FromPromptField(choice["prompt_logprobs"], tokens);
  }
  const Json lists = choice.contains("logprobs") ? choice["logprobs"] : Json(nullptr);
  if (lists.is_object() && lists.contains("token_logprobs") && lists["token_logprobs"].is_array()) {
    return FromTokenLists(lists, tokens);
  }
  return Unusable(
      std::string("the answer lacks 'logprobs.token_logprobs': the server does not return log-probabilities "
                  "of a prompt; ") +
      kWhoReturnsThem);
}

Result<PromptLogProbs> ParseGenerateLogProbs(const std::string& body, std::span<const int32_t> tokens) {
  const auto json = ParseJson(body);
  if (!json.ok()) return Unusable("the answer is not JSON: " + json.error().message());
  const Json meta = json->is_object() && json->contains("meta_info") ? (*json)["meta_info"] : Json(nullptr);
  if (!meta.is_object() || !meta.contains("input_token_logprobs") || !meta["input_token_logprobs"].is_array()) {
    return Unusable("the answer lacks 'meta_info.input_token_logprobs'; expected that of SGLang's /generate");
  }
  HAYPILE_TRY(CheckPromptTokens(meta, tokens.size()));
  const Json& list = meta["input_token_logprobs"];
  if (list.size() != tokens.size()) return TooFew(list.size(), tokens.size());
  PromptLogProbs out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!list[i].is_array() || list[i].size() < 2) {
      return Unusable(fmt::format("entry {} of 'input_token_logprobs' is {}; expected [log-probability, id, text]", i,
                                  Short(DumpJson(list[i], -1))));
    }
    if (list[i][1] != Json(tokens[i])) return OtherTokens(i, DumpJson(list[i][1], -1), tokens[i]);
    if (i == 0) continue;
    HAYPILE_TRY_ASSIGN(const double log_prob, UsableLogProb(list[i][0], i));
    out.log_probs.push_back(log_prob);
  }
  out.ids_confirmed = true;
  return out;
}

Result<PromptLogProbs> AskPromptLogProbs(const ServerAccess& access, const ServedModel& served,
                                         std::span<const int32_t> tokens) {
  const Json ids = std::vector<int32_t>(tokens.begin(), tokens.end());
  const bool sglang = served.engine == "sglang";
  const std::string url = served.base_url + (sglang ? "/generate" : "/v1/completions");
  const Json body = sglang ? Json{{"input_ids", ids},
                                  {"sampling_params", {{"temperature", 0}, {"max_new_tokens", 1}}},
                                  {"return_logprob", true},
                                  {"logprob_start_len", 0}}
                           : Json{{"model", served.model},
                                  {"prompt", ids},
                                  {"max_tokens", 1},
                                  {"temperature", 0},
                                  {"echo", true},
                                  {"logprobs", 1},
                                  {"return_tokens_as_token_ids", true}};
  HAYPILE_TRY_ASSIGN(const std::string answer, AskFor200(Post(access, url, body)));
  auto parsed = sglang ? ParseGenerateLogProbs(answer, tokens) : ParseCompletionLogProbs(answer, tokens);
  if (!parsed.ok()) return std::move(parsed).error().WithContext("'" + url + "'");
  parsed->endpoint = sglang ? "/generate" : "/v1/completions";
  return parsed;
}

}  // namespace haypile
