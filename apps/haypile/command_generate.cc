#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/interrupt.h"
#include "cache_flags.h"
#include "checkpoint/checkpoint.h"
#include "command.h"
#include "compare/request.h"
#include "compare/scales_in_use.h"
#include "engine/session.h"
#include "modelstore/model_store.h"
#include "output.h"

namespace haypile {
namespace {

struct GenerateFlags {
  std::string model;
  std::string prompt;
  std::string dtype = "bf16";
  std::string skip_layers;
  std::string scales_path;
  std::string memory;
  int64_t max_model_len = 0;
  int page_tokens = 16;
  int threads = 0;
  bool chat = false;
  GenerateOptions options{.max_new_tokens = 128, .sampling = {}};
};

Result<KvCacheConfig> CacheConfig(const GenerateFlags& flags, const Checkpoint& checkpoint, int64_t tokens_needed) {
  const ModelSpec& spec = checkpoint.spec();
  HAYPILE_TRY_ASSIGN(const KvDtype dtype, ParseKvDtype(flags.dtype));
  HAYPILE_TRY_ASSIGN(const std::vector<bool> skipped, ParseSkipLayers(flags.skip_layers, spec));
  KvCacheConfig config;
  HAYPILE_TRY_ASSIGN(config.geometry, MakeKvGeometry(spec, dtype, skipped));
  HAYPILE_TRY_ASSIGN(ScalesInUse in_use, FindScalesInUse(spec, checkpoint.kv_scales(), flags.scales_path, dtype));
  config.scales = std::move(in_use.scales);
  config.page_tokens = flags.page_tokens;
  config.max_model_len = flags.max_model_len > 0 ? flags.max_model_len : tokens_needed;
  if (config.max_model_len > spec.max_positions) {
    return Error(ErrorCode::kOutOfBudget, fmt::format("{} tokens of context are more than the {} this model was made "
                                                      "for; shorten the prompt, --max-tokens or --max-model-len",
                                                      config.max_model_len, spec.max_positions));
  }
  if (tokens_needed > config.max_model_len) {
    return Error(ErrorCode::kOutOfBudget, fmt::format("prompt and --max-tokens need {} tokens, --max-model-len is {}",
                                                      tokens_needed, config.max_model_len));
  }
  if (flags.memory.empty()) {
    config.pool_tokens = config.max_model_len;
  } else {
    HAYPILE_TRY_ASSIGN(config.budget_bytes, ParseByteCount(flags.memory, "--kv-cache-memory"));
  }
  return config;
}

Result<std::vector<int32_t>> EncodePrompt(const GenerateFlags& flags, const Session& session) {
  if (!flags.chat) return session.EncodeWithBos(flags.prompt);
  const ChatMessage message{"user", flags.prompt};
  HAYPILE_TRY_ASSIGN(const std::string text, session.tokenizer->ApplyChatTemplate({&message, 1}, true));
  return session.EncodeWithBos(text);
}

// Everything that can be wrong with the flags, before weights are read.
Status CheckFlags(const GenerateFlags& flags, const Checkpoint& checkpoint) {
  HAYPILE_TRY(CheckSampling(flags.options.sampling));
  HAYPILE_TRY_ASSIGN(const KvCacheConfig config, CacheConfig(flags, checkpoint, 1));
  auto plan = PlanKvPool(config);
  if (!plan.ok()) return std::move(plan).error();
  return {};
}

Status RunGenerate(const GenerateFlags& flags) {
  HAYPILE_TRY_ASSIGN(const std::string path, ResolveModel(flags.model));
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(path));
  HAYPILE_TRY(CheckFlags(flags, *checkpoint));
  HAYPILE_TRY_ASSIGN(const KvDtype dtype, ParseKvDtype(flags.dtype));
  TellOfOwnScales(checkpoint->kv_scales(), flags.scales_path, {&dtype, 1});
  HAYPILE_TRY_ASSIGN(const Session session, Session::Load(path, flags.threads));
  HAYPILE_TRY_ASSIGN(const std::vector<int32_t> prompt, EncodePrompt(flags, session));
  if (prompt.empty()) return Error(ErrorCode::kInvalidArgument, "the prompt has no tokens; give -p some text");
  HAYPILE_TRY_ASSIGN(
      KvCacheConfig config,
      CacheConfig(flags, *checkpoint, static_cast<int64_t>(prompt.size()) + flags.options.max_new_tokens));
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<KvCache> cache, KvCache::Create(std::move(config)));
  StreamDecoder decoder(*session.tokenizer);
  auto generated = Generate(session, *cache, prompt, flags.options, [&](int32_t token) {
    fmt::print("{}", decoder.Push(token));
    std::fflush(stdout);
    return !Interrupted();
  });
  if (!generated.ok()) return std::move(generated).error();
  fmt::print("{}\n", decoder.Finish());
  return {};
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt with any KV-cache format");
  auto flags = std::make_shared<GenerateFlags>();
  command->add_option("MODEL", flags->model, "A known name, a GGUF file or a Hugging Face folder")->required();
  command->add_option("-p,--prompt", flags->prompt, "Text to continue")->required();
  command->add_flag("--chat", flags->chat, "Put the prompt through the model's chat template");
  command->add_option("-n,--max-tokens", flags->options.max_new_tokens, "Most tokens to generate")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--kv-cache-dtype", flags->dtype, "Format of K and V, or K/V: " + KvFormatNames())
      ->capture_default_str();
  command->add_option("--kv-cache-memory", flags->memory, "Pool size in bytes, e.g. 512MiB; default: what is needed");
  command->add_option("--max-model-len", flags->max_model_len, "Longest context; default: what is needed")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  AddCacheFlags(*command, flags->skip_layers, flags->scales_path, flags->page_tokens);
  command->add_option("--temperature", flags->options.sampling.temperature, "0: greedy")->capture_default_str();
  command->add_option("--top-p", flags->options.sampling.top_p, "Share of probability to draw from")
      ->capture_default_str();
  command->add_option("--seed", flags->options.sampling.seed, "Seed of the draws")->capture_default_str();
  AddThreadsFlag(*command, flags->threads);
  command->callback([&chosen, flags] { chosen = [flags] { return RunGenerate(*flags); }; });
}

}  // namespace haypile
