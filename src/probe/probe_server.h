#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace haypile {

// How to reach a running server.
struct ServerAccess {
  std::string url;      // http://HOST:PORT[/PREFIX]; "/v1" at its end may be left on
  std::string api_key;  // empty: none is sent
  std::string model;    // as the server names it; empty: the only one that it serves
  double answer_s = 600;
  std::function<bool()> stop = {};  // asked often; empty: never
};

// What a server says of itself at /v1/models.
struct ServedModel {
  std::string base_url;  // without "/v1" and without a slash at the end
  std::string engine;    // "vllm", "sglang", "llamacpp" or what else it calls its owner; empty: not said
  std::string model;
  std::optional<int64_t> max_model_len;
};

// Which model is served. kInvalidArgument: the URL, or a name that the server does not have, or several models and no
// name. kNetwork: no answer, or one that is not an OpenAI-compatible list of models. kInterrupted.
Result<ServedModel> FindServedModel(const ServerAccess& access);

// Natural log-probabilities of tokens[1...] given all tokens before each, as the server computes them in one request:
// SGLang's /generate, else /v1/completions with `echo`. What comes back is tokens.size() - 1 finite numbers, at most 0.
// kNetwork says what the server lacks or refuses; where it returns token ids they are the ones that were sent.
struct PromptLogProbs {
  std::vector<double> log_probs;
  std::string endpoint;        // that gave them
  bool ids_confirmed = false;  // the server returned the same token ids
};
Result<PromptLogProbs> AskPromptLogProbs(const ServerAccess& access, const ServedModel& served,
                                         std::span<const int32_t> tokens);

// Parts of it, for any text a server may send: the bodies of a 200 of both endpoints.
Result<PromptLogProbs> ParseCompletionLogProbs(const std::string& body, std::span<const int32_t> tokens);
Result<PromptLogProbs> ParseGenerateLogProbs(const std::string& body, std::span<const int32_t> tokens);

}  // namespace haypile
