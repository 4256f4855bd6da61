#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "cache_flags.h"
#include "checkpoint/checkpoint.h"
#include "command.h"
#include "compare/compare.h"
#include "modelstore/model_store.h"
#include "output.h"
#include "report/terminal.h"
#include "version.h"

namespace haypile {
namespace {

struct CompareFlags {
  CompareRequest request;
  std::string dtypes = "bf16,fp8,q8_0/nvfp4_4over6,nvfp4";
  std::string memory = "512MiB";
  std::string streams = "1,4,8";
  std::string json_path, html_path;
  bool quick = false, full = false, quiet = false;
  int threads = 0;
};

Status FillRequest(CompareFlags& flags) {
  CompareRequest& request = flags.request;
  if (flags.quick && flags.full) {
    return Error(ErrorCode::kInvalidArgument, "--quick and --full exclude each other; give one of them or neither");
  }
  request.effort = flags.quick ? CompareEffort::kQuick : flags.full ? CompareEffort::kFull : CompareEffort::kStandard;
  HAYPILE_TRY_ASSIGN(request.dtypes, ParseDtypeList(flags.dtypes));
  HAYPILE_TRY_ASSIGN(request.kv_cache_memory_bytes, ParseByteCount(flags.memory, "--kv-cache-memory"));
  HAYPILE_TRY_ASSIGN(request.streams, ParseStreams(flags.streams));
  for (const std::string& path : {flags.json_path, flags.html_path}) {
    if (!path.empty()) HAYPILE_TRY(CheckWritable(path));
  }
  return {};
}

// One state file for each model and set of options, in the cache folder.
Result<std::string> StatePath(const CompareFlags& flags, const std::string& model_path) {
  HAYPILE_TRY_ASSIGN(const std::string cache, CacheFolder());
  const std::string name = fmt::format("{}|{}|{}|{}|{}|{}|{}", model_path, flags.dtypes, flags.memory, flags.streams,
                                       NameOf(flags.request.effort), flags.request.max_model_len,
                                       flags.request.scales_path + "|" + flags.request.skip_layers);
  return cache + "/compare/" + Sha256Hex(name).substr(0, 16) + ".json";
}

Status WriteOutputs(const CompareFlags& flags, const CompareResult& result) {
  if (!flags.json_path.empty()) HAYPILE_TRY(WriteJsonResult(result, flags.json_path));
  if (!flags.html_path.empty()) HAYPILE_TRY(WriteHtmlReport(result, flags.html_path));
  return {};
}

Status RunCompareCommand(CompareFlags& flags) {
  HAYPILE_TRY(FillRequest(flags));
  HAYPILE_TRY_ASSIGN(const std::string model_path, ResolveModel(flags.request.model));
  HAYPILE_TRY(CheckCompareRequest(model_path, flags.request));
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(model_path));
  TellOfOwnScales(checkpoint->kv_scales(), flags.request.scales_path, flags.request.dtypes);
  CompareContext context;
  context.model_path = model_path;
  HAYPILE_TRY_ASSIGN(context.state_path, StatePath(flags, model_path));
  context.tool_version = kVersion;
  context.commit = kCommit;
  context.threads = flags.threads;
  std::unique_ptr<Progress> progress;
  context.on_progress = [&](double done, double total, const std::string& what) {
    if (progress == nullptr) progress = std::make_unique<Progress>("compare", total, "tok", flags.quiet);
    progress->Update(done, what);
  };
  Status written;
  context.on_step = [&](const CompareResult& partial) { written = WriteOutputs(flags, partial); };
  auto result = RunCompare(flags.request, context);
  progress.reset();
  if (!result.ok()) return std::move(result).error();
  HAYPILE_TRY(WriteOutputs(flags, *result));
  fmt::print("{}", RenderTerminal(*result, OutputWidth(), OutputHasColour()));
  if (!flags.json_path.empty()) fmt::print("JSON:   {}\n", flags.json_path);
  if (!flags.html_path.empty()) fmt::print("Report: {}\n", flags.html_path);
  if (result->complete) return {};
  return Error(ErrorCode::kInterrupted, "stopped; what is finished is kept, and the same command resumes");
}

}  // namespace

void AddCompareCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand("compare", "Compare KV-cache formats on a model: what each buys and costs");
  auto flags = std::make_shared<CompareFlags>();
  command->add_option("MODEL", flags->request.model, "A known name, a GGUF file or a Hugging Face folder")->required();
  command
      ->add_option("--kv-cache-dtype", flags->dtypes,
                   "Formats to compare, the first is the baseline; one name, or K/V: " + KvFormatNames())
      ->capture_default_str();
  command->add_option("--kv-cache-memory", flags->memory, "Budget of the KV pool, e.g. 512MiB, 2GB")
      ->capture_default_str();
  command
      ->add_option("--max-model-len", flags->request.max_model_len,
                   "Longest context; default: 4096 (--quick), 8192, 32768 (--full), or the model's if shorter")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_option("--streams", flags->streams, "Concurrent streams of the decode measurement")
      ->capture_default_str();
  command->add_flag("--quick", flags->quick, "Minutes: short texts, few samples");
  command->add_flag("--full", flags->full, "Whole texts, all depths, many samples");
  AddCacheFlags(*command, flags->request.skip_layers, flags->request.scales_path, flags->request.page_tokens);
  AddThreadsFlag(*command, flags->threads);
  command->add_option("--json", flags->json_path, "Write the result to this file (haypile.compare/1)");
  command->add_option("--report", flags->html_path, "Write the HTML report to this file");
  command->add_flag("-q,--quiet", flags->quiet, "No progress");
  command->callback([&chosen, flags] { chosen = [flags] { return RunCompareCommand(*flags); }; });
}

}  // namespace haypile
