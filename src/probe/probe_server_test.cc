#include "probe/probe_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "base/json.h"
#include "engines/local_server_test.h"

namespace haypile {
namespace {

const std::vector<int32_t> kTokens{504, 1000, 2000};

std::string MessageOf(const Result<PromptLogProbs>& result) {
  return result.ok() ? "(no error)" : result.error().message();
}
std::string Completion(const std::string& logprobs, const std::string& more = "") {
  return R"({"choices":[{"text":"x","logprobs":)" + logprobs + more + R"(}],"usage":{"prompt_tokens":3}})";
}

TEST(ProbeServer, CompletionsOfVllmWithTokenIds) {
  const auto parsed =
      ParseCompletionLogProbs(Completion(R"({"token_logprobs":[null,-8.5,-1.25,-2.4],)"
                                         R"("tokens":["token_id:504","token_id:1000","token_id:2000","token_id:37"]})"),
                              kTokens);
  ASSERT_TRUE(parsed.ok()) << MessageOf(parsed);
  EXPECT_EQ(parsed->log_probs, (std::vector<double>{-8.5, -1.25}));
  EXPECT_TRUE(parsed->ids_confirmed);
}

TEST(ProbeServer, VllmsOwnFieldIsReadById) {
  const std::string field =
      R"(,"prompt_logprobs":[null,{"29":{"logprob":-0.8},"1000":{"logprob":-8.5}},{"2000":{"logprob":-1.25}}])";
  const auto parsed = ParseCompletionLogProbs(Completion("null", field), kTokens);
  ASSERT_TRUE(parsed.ok()) << MessageOf(parsed);
  EXPECT_EQ(parsed->log_probs, (std::vector<double>{-8.5, -1.25}));
  EXPECT_TRUE(parsed->ids_confirmed);
  const auto other = ParseCompletionLogProbs(
      Completion("null", R"(,"prompt_logprobs":[null,{"29":{"logprob":-0.8}},{"2000":{"logprob":-1.25}}])"), kTokens);
  EXPECT_NE(MessageOf(other).find("another tokenizer"), std::string::npos) << MessageOf(other);
}

TEST(ProbeServer, PlainOpenAiListsHaveNoIdsToConfirm) {
  const auto parsed = ParseCompletionLogProbs(
      Completion(R"({"token_logprobs":[null,-8.5,0,-2.4],"tokens":["a","b","c","d"]})"), kTokens);
  ASSERT_TRUE(parsed.ok()) << MessageOf(parsed);
  EXPECT_EQ(parsed->log_probs, (std::vector<double>{-8.5, 0}));
  EXPECT_FALSE(parsed->ids_confirmed);
}

TEST(ProbeServer, GenerateOfSglang) {
  const auto parsed = ParseGenerateLogProbs(
      R"({"text":"x","meta_info":{"prompt_tokens":3,"input_token_logprobs":[[null,504,null],[-8.5,1000,null],[-1.25,2000,"c"]]}})",
      kTokens);
  ASSERT_TRUE(parsed.ok()) << MessageOf(parsed);
  EXPECT_EQ(parsed->log_probs, (std::vector<double>{-8.5, -1.25}));
  EXPECT_TRUE(parsed->ids_confirmed);
}

TEST(ProbeServer, AnswersThatAreNone) {
  const auto lists = [](const char* values, const char* names = R"(["a","b","c","d"])") {
    return Completion(fmt::format(R"({{"token_logprobs":{},"tokens":{}}})", values, names));
  };
  for (const auto& [body, words] : {
           std::pair<std::string, std::string>{"<html>", "not JSON"},
           {"[]", "lacks 'choices'"},
           {R"({"choices":[]})", "lacks 'choices'"},
           {R"({"choices":[7]})", "lacks 'choices'"},
           {R"({"choices":[{"text":"x"}]})", "lacks 'logprobs.token_logprobs'"},
           {Completion("null"), "lacks 'logprobs.token_logprobs'"},
           {Completion(R"({"content":[{"token":"x","logprob":-1}]})"), "lacks 'logprobs.token_logprobs'"},
           {lists("[-2.4]", R"(["d"])"), "of 1 tokens, and the prompt has 3"},
           {lists(R"([null,-8.5,"x",-2.4])"), "no number as log-probability of token 2"},
           {lists("[null,null,-1,-2.4]"), "no number as log-probability of token 1"},
           {lists("[null,-1,8.5,-2.4]"), "are these logits"},
           {lists("[null,-1,-9999,-2.4]"), "no chance at all"},
           {lists("[null,-1,-2,-3]", R"(["token_id:504","token_id:7","token_id:2000","token_id:3"])"),
            "the server's token 1 is 7, and 1000 was sent"},
           {R"({"choices":[{"logprobs":{"token_logprobs":[null,-1,-2,-3]}}],"usage":{"prompt_tokens":4}})",
            "counted 4 prompt tokens where 3 were sent"},
       }) {
    const auto parsed = ParseCompletionLogProbs(body, kTokens);
    EXPECT_NE(MessageOf(parsed).find(words), std::string::npos) << body << "\n" << MessageOf(parsed);
    EXPECT_EQ(parsed.error().code(), ErrorCode::kNetwork);
  }
  for (const auto& [body, words] : {
           std::pair<std::string, std::string>{"{", "not JSON"},
           {"{}", "lacks 'meta_info.input_token_logprobs'"},
           {R"({"meta_info":{"input_token_logprobs":[[null,504]]}})", "of 1 tokens"},
           {R"({"meta_info":{"input_token_logprobs":[[null,504],[-1,9],[-2,2000]]}})", "the server's token 1 is 9"},
           {R"({"meta_info":{"input_token_logprobs":[[null,504],[-1],[-2,2000]]}})", "entry 1"},
           {R"({"meta_info":{"prompt_tokens":9,"input_token_logprobs":[[null,504],[-1,1000],[-2,2000]]}})",
            "counted 9"},
       }) {
    const auto parsed = ParseGenerateLogProbs(body, kTokens);
    EXPECT_NE(MessageOf(parsed).find(words), std::string::npos) << body << "\n" << MessageOf(parsed);
  }
}

ServerAccess AccessTo(const LocalServer& server, const std::string& model = "") {
  ServerAccess access;
  access.url = server.Url();
  access.model = model;
  access.answer_s = 20;
  return access;
}

// A server that gives one answer to everything.
Result<ServedModel> FoundAt(int status, const std::string& body, const std::string& model = "") {
  LocalServer server(".*", [&](const httplib::Request&, httplib::Response& response) {
    response.status = status;
    response.set_content(body, "application/json");
  });
  return FindServedModel(AccessTo(server, model));
}

TEST(ProbeServer, TheOnlyModelIsTaken) {
  const auto found = FoundAt(
      200, R"({"data":[{"id":"m","owned_by":"vllm","parent":null,"max_model_len":2048},{"id":"lora","parent":"m"}]})");
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(found->model, "m");
  EXPECT_EQ(found->engine, "vllm");
  EXPECT_EQ(found->max_model_len, 2048);
  const auto adapter = FoundAt(200, R"({"data":[{"id":"m"},{"id":"lora","parent":"m"}]})", "lora");
  ASSERT_TRUE(adapter.ok());
  EXPECT_EQ(adapter->model, "lora");
  EXPECT_FALSE(adapter->max_model_len.has_value());
}

TEST(ProbeServer, ListsOfModelsThatNameNoneToAsk) {
  for (const auto& [status, body, model, code, words] : {
           std::tuple(200, R"({"data":[{"id":"a"},{"id":"b"}]})", "", ErrorCode::kInvalidArgument,
                      "--served-model-name: a, b"),
           std::tuple(200, R"({"data":[{"id":"a"},{"id":"b"}]})", "c", ErrorCode::kInvalidArgument, "has no 'c'"),
           std::tuple(200, R"({"data":[]})", "", ErrorCode::kNetwork, "names no model"),
           std::tuple(200, R"({"models":[]})", "", ErrorCode::kNetwork, "no list of models"),
           std::tuple(200, "hello", "", ErrorCode::kNetwork, "no list of models"),
           std::tuple(401, R"({"error":"Unauthorized"})", "", ErrorCode::kNetwork,
                      "Unauthorized; give the server's key"),
           std::tuple(404, "", "", ErrorCode::kNetwork, "OpenAI-compatible"),
           std::tuple(503, R"({"error":{"message":"Loading model"}})", "", ErrorCode::kNetwork, "503: Loading model"),
           std::tuple(307, "", "", ErrorCode::kNetwork, "redirects"),
       }) {
    const auto found = FoundAt(status, body, model);
    ASSERT_FALSE(found.ok()) << body;
    EXPECT_EQ(found.error().code(), code) << found.error().message();
    EXPECT_NE(found.error().message().find(words), std::string::npos) << found.error().message();
  }
}

TEST(ProbeServer, TheQuestionIsWhatTheEngineTakes) {
  std::string path, authorization;
  Json body;
  LocalServer server(".*", [&](const httplib::Request& request, httplib::Response& response) {
    path = request.path;
    authorization = request.get_header_value("Authorization");
    body = ParseJson(request.body).value();
    response.set_content(path == "/generate"
                             ? R"({"meta_info":{"input_token_logprobs":[[null,504],[-1,1000],[-2,2000]]}})"
                             : R"({"choices":[{"logprobs":{"token_logprobs":[null,-1,-2,-3]}}]})",
                         "application/json");
  });
  ServerAccess access = AccessTo(server);
  access.api_key = "secret";
  ServedModel served;
  served.base_url = server.Url();
  served.model = "m";
  served.engine = "vllm";
  const auto vllm = AskPromptLogProbs(access, served, kTokens);
  ASSERT_TRUE(vllm.ok()) << MessageOf(vllm);
  EXPECT_EQ(path, "/v1/completions");
  EXPECT_EQ(authorization, "Bearer secret");
  EXPECT_EQ(body["prompt"], Json(kTokens));
  EXPECT_TRUE(body["echo"] == true && body["logprobs"] == 1 && body["max_tokens"] == 1 && body["model"] == "m");
  EXPECT_EQ(vllm->endpoint, "/v1/completions");
  served.engine = "sglang";
  const auto sglang = AskPromptLogProbs(access, served, kTokens);
  ASSERT_TRUE(sglang.ok()) << MessageOf(sglang);
  EXPECT_EQ(path, "/generate");
  EXPECT_EQ(body["input_ids"], Json(kTokens));
  EXPECT_TRUE(body["return_logprob"] == true && body["logprob_start_len"] == 0);
  EXPECT_EQ(sglang->log_probs, vllm->log_probs);
}

TEST(ProbeServer, TheUrlMayEndInV1) {
  LocalServer server("/v1/models", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(R"({"data":[{"id":"m"}]})", "application/json");
  });
  for (const char* end : {"", "/", "/v1", "/v1/"}) {
    ServerAccess access = AccessTo(server);
    access.url += end;
    const auto found = FindServedModel(access);
    ASSERT_TRUE(found.ok()) << end << found.error().message();
    EXPECT_EQ(found->base_url, server.Url());
  }
}

// What llama-server, vLLM and a proxy say of a question that they refuse.
TEST(ProbeServer, RefusalsNameWhatIsMissing) {
  for (const auto& [status, body, words] : {
           std::tuple(500, R"({"error":{"code":500,"message":"Only no echo is supported","type":"server_error"}})",
                      "Only no echo is supported; the probe needs the log-probabilities of a prompt: vLLM"),
           std::tuple(400,
                      R"({"error":{"message":"Requested sample logprobs of 1, which is greater than max allowed: 0"}})",
                      "--max-logprobs 1"),
           std::tuple(400, R"({"error":{"message":"This model's maximum context length is 2048 tokens."}})",
                      "--probe-tokens"),
           std::tuple(400, R"({"error":{"message":"Token id 90000 is out of vocabulary"}})", "another vocabulary"),
           std::tuple(403, "no", "HAYPILE_API_KEY"),
           std::tuple(422, R"({"detail":[{"loc":["body"],"msg":"bad"}]})", "\"msg\":\"bad\""),
           std::tuple(502, "upstream\x1b[31m gone", "look at its log"),
       }) {
    LocalServer server(
        ".*", [&, code = status, text = std::string(body)](const httplib::Request&, httplib::Response& response) {
          response.status = code;
          response.set_content(text, "application/json");
        });
    ServedModel served;
    served.base_url = server.Url();
    const auto answer = AskPromptLogProbs(AccessTo(server), served, kTokens);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code(), ErrorCode::kNetwork);
    EXPECT_NE(MessageOf(answer).find(words), std::string::npos) << MessageOf(answer);
    EXPECT_NE(MessageOf(answer).find(std::to_string(status)), std::string::npos);
    EXPECT_EQ(MessageOf(answer).find('\x1b'), std::string::npos);
  }
}

TEST(ProbeServer, NobodyThere) {
  ServerAccess access;
  access.url = "http://127.0.0.1:1";
  access.answer_s = 5;
  const auto found = FindServedModel(access);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), ErrorCode::kNetwork);
  for (const char* url : {"https://127.0.0.1:1", "127.0.0.1:8000", "http://", "http://a b", "http://user@host"}) {
    access.url = url;
    const auto refused = FindServedModel(access);
    ASSERT_FALSE(refused.ok()) << url;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument) << url << refused.error().message();
  }
}

TEST(ProbeServer, StopsWhileTheServerThinks) {
  std::atomic<bool> asked{false}, done{false};
  LocalServer server(".*", [&](const httplib::Request&, httplib::Response&) {
    asked = true;
    for (int i = 0; i < 600 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  ServerAccess access = AccessTo(server);
  access.answer_s = 600;
  access.stop = [&asked] { return asked.load(); };
  ServedModel served;
  served.base_url = server.Url();
  const auto start = std::chrono::steady_clock::now();
  const auto answer = AskPromptLogProbs(access, served, kTokens);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  done = true;
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), ErrorCode::kInterrupted) << MessageOf(answer);
  EXPECT_LT(took, 20);
}

}  // namespace
}  // namespace haypile
