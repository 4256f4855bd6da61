#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "cache_flags.h"
#include "calibrate/calibrate.h"
#include "calibrate/calibrate_report.h"
#include "calibrate/checkpoint_scales.h"
#include "calibrate/scales_json.h"
#include "checkpoint/checkpoint.h"
#include "command.h"
#include "modelstore/model_store.h"
#include "output.h"
#include "version.h"

namespace haypile {
namespace {

struct CalibrateFlags {
  CalibrateRequest request;
  std::string format = "fp8_e4m3", method = "mse", strategy = "tensor";
  std::string output_path, sglang_path, json_path, compressed_tensors_path, model_opt_path, model_type;
  int tp_size = 1;
  int threads = 0;
  bool overwrite = false, quiet = false, ignore_existing_scales = false;
};

Status FillRequest(CalibrateFlags& flags) {
  const auto format = KvFormatByName(flags.format);
  if (!format) {
    return Error(ErrorCode::kInvalidArgument,
                 "--format: '" + flags.format + "' is not known; known: " + KvFormatNames());
  }
  ScaleRule& rule = flags.request.rule;
  rule.format = *format;
  rule.method = *std::ranges::find(kScaleMethods, flags.method, [](ScaleMethod m) { return std::string(NameOf(m)); });
  flags.request.strategy = flags.strategy == "head" ? ScaleStrategy::kHead : ScaleStrategy::kTensor;
  return {};
}

Status CheckOutputFile(const std::string& path, bool overwrite) {
  if (path.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !overwrite) {
    return Error(ErrorCode::kInvalidArgument, "'" + path + "' exists; name another file, or give --overwrite");
  }
  return CheckWritable(path);
}

std::vector<CheckpointScalesRequest> CheckpointOutputs(const CalibrateFlags& flags, const std::string& model_path) {
  std::vector<CheckpointScalesRequest> outputs;
  CheckpointScalesRequest request;
  request.source = model_path;
  request.strategy = flags.request.strategy;
  request.format = flags.request.rule.format;
  request.tool_version = kVersion;
  request.overwrite = flags.overwrite;
  for (const auto& [path, convention] : {std::pair{flags.compressed_tensors_path, ScaleConvention::kCompressedTensors},
                                         std::pair{flags.model_opt_path, ScaleConvention::kModelOpt}}) {
    if (path.empty()) continue;
    request.target = path;
    request.convention = convention;
    outputs.push_back(request);
  }
  return outputs;
}

// config.json's model_type of a folder; of a GGUF file, what config.json of the family says.
Result<std::string> ModelType(const CalibrateFlags& flags, const std::string& model_path) {
  if (!flags.model_type.empty()) return flags.model_type;
  const std::string config_path = model_path + "/config.json";
  if (std::error_code ignored; std::filesystem::is_directory(model_path, ignored)) {
    HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(config_path));
    HAYPILE_TRY_ASSIGN(const Json config, ParseJson(text));
    if (config.is_object() && config.contains("model_type") && config["model_type"].is_string()) {
      return config["model_type"].get<std::string>();
    }
    return Error(ErrorCode::kMalformed, "'" + config_path + "' names no model_type; give --model-type");
  }
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(model_path));
  const ModelFamily family = checkpoint->spec().family;
  return family == ModelFamily::kGemma3 ? std::string("gemma3_text") : FamilyName(family);
}

Status CheckSglang(const CalibrateFlags& flags, const std::string& model_path) {
  if (flags.sglang_path.empty()) return {};
  if (flags.request.rule.format != KvFormat::kFp8E4m3) {
    return Error(ErrorCode::kUnsupported,
                 "SGLang's file of scales holds those of fp8_e4m3 only; use --format fp8_e4m3");
  }
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(model_path));
  const std::vector<std::vector<float>> ones(
      static_cast<size_t>(checkpoint->spec().layer_count),
      std::vector<float>(static_cast<size_t>(checkpoint->spec().kv_heads), 1.0f));
  auto text = SglangScalesText({ones, ones}, "", flags.tp_size);
  if (!text.ok()) return std::move(text).error();
  return {};
}

// Two sets of scales for one model are a mistake unless they are asked for.
Status CheckExistingScales(const CalibrateFlags& flags, const std::string& model_path) {
  HAYPILE_TRY_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(model_path));
  const CheckpointKvScales& own = checkpoint->kv_scales();
  if (own.tensors == 0 || flags.ignore_existing_scales) return {};
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' holds KV scales already: {} tensors such as '{}', which compare and generate use; give "
                  "--ignore-existing-scales to make others",
                  model_path, own.tensors, own.example));
}

// Everything that can be wrong with flags and targets, before weights are read.
Status CheckAll(const CalibrateFlags& flags, const std::string& model_path) {
  HAYPILE_TRY(CheckCalibrateRequest(model_path, flags.request));
  for (const std::string& path : {flags.output_path, flags.sglang_path, flags.json_path}) {
    HAYPILE_TRY(CheckOutputFile(path, flags.overwrite));
  }
  HAYPILE_TRY(CheckSglang(flags, model_path));
  const std::vector<CheckpointScalesRequest> checkpoints = CheckpointOutputs(flags, model_path);
  for (const CheckpointScalesRequest& checkpoint : checkpoints) HAYPILE_TRY(CheckCheckpointScales(checkpoint));
  HAYPILE_TRY(CheckExistingScales(flags, model_path));
  if (checkpoints.size() == 2 && checkpoints[0].target == checkpoints[1].target) {
    return Error(ErrorCode::kInvalidArgument, "--compressed-tensors and --modelopt name the same folder; give two");
  }
  return {};
}

Status WriteOutputs(const CalibrateFlags& flags, const std::string& model_path, const CalibrateResult& result) {
  const KvScales scales = result.Scales();
  std::string told;
  if (!flags.output_path.empty()) {
    HAYPILE_TRY(WriteFileAtomic(flags.output_path, KvScalesFileText(scales)));
    told += fmt::format("Scales:  {} (haypile ... --kv-scales)\n", flags.output_path);
  }
  if (!flags.sglang_path.empty()) {
    HAYPILE_TRY_ASSIGN(const std::string model_type, ModelType(flags, model_path));
    HAYPILE_TRY_ASSIGN(const std::string text, SglangScalesText(scales, model_type, flags.tp_size));
    HAYPILE_TRY(WriteFileAtomic(flags.sglang_path, text));
    told += fmt::format("SGLang:  {} (--quantization-param-path, --tp-size {}); {}\n", flags.sglang_path, flags.tp_size,
                        SharedScaleLossText(result));
  }
  for (const CheckpointScalesRequest& checkpoint : CheckpointOutputs(flags, model_path)) {
    HAYPILE_TRY(WriteCheckpointScales(checkpoint, scales));
    told += fmt::format("Folder:  {}\n", checkpoint.target);
  }
  if (!flags.json_path.empty()) {
    HAYPILE_TRY(WriteFileAtomic(flags.json_path, CalibrateJsonText(result)));
    told += fmt::format("JSON:    {}\n", flags.json_path);
  }
  fmt::print("{}\n{}", CalibrateText(result, OutputWidth(), OutputHasColour()), told);
  return {};
}

Status RunCalibrateCommand(CalibrateFlags& flags) {
  HAYPILE_TRY(FillRequest(flags));
  HAYPILE_TRY_ASSIGN(const std::string model_path, ResolveModel(flags.request.model));
  HAYPILE_TRY(CheckAll(flags, model_path));
  CalibrateContext context;
  context.model_path = model_path;
  HAYPILE_TRY_ASSIGN(const std::string cache, CacheFolder());
  const CalibrationTextRequest& text = flags.request.text;
  const std::string name = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", model_path, text.text_path, text.chats_path,
                                       text.tokens, text.segment_tokens, flags.format, flags.method, flags.strategy,
                                       flags.request.rule.percentile, flags.request.output_tokens);
  context.state_path = cache + "/calibrate/" + Sha256Hex(name).substr(0, 16) + ".json";
  context.tool_version = kVersion;
  context.threads = flags.threads;
  std::unique_ptr<Progress> progress;
  context.on_progress = [&](double done, double total, const std::string& what) {
    if (progress == nullptr) progress = std::make_unique<Progress>("calibrate", total, "tok", flags.quiet);
    progress->Update(done, what);
  };
  auto result = RunCalibrate(flags.request, context);
  progress.reset();
  if (result.ok()) return WriteOutputs(flags, model_path, *result);
  if (result.error().code() != ErrorCode::kInterrupted) return std::move(result).error();
  return Error(ErrorCode::kInterrupted, "stopped; what is finished is kept, and the same command resumes");
}

void AddOutputs(CLI::App& command, CalibrateFlags& flags) {
  command.add_option("-o,--output", flags.output_path, "Scales for haypile's --kv-scales (docs/kv-scales.md)");
  command.add_option("--sglang", flags.sglang_path, "Scales for SGLang's --quantization-param-path");
  command.add_option("--tp-size", flags.tp_size, "Tensor-parallel ranks of --sglang")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--model-type", flags.model_type, "model_type of --sglang; default: config.json's");
  command.add_option("--compressed-tensors", flags.compressed_tensors_path,
                     "Folder for a copy of the checkpoint with k_scale and v_scale as compressed-tensors has them");
  command.add_option("--modelopt", flags.model_opt_path, "The same as ModelOpt has them");
  command.add_option("--json", flags.json_path, "Everything measured, as JSON");
  command.add_flag("--overwrite", flags.overwrite, "Replace files and folders that exist");
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand("calibrate", "Make KV scales from the K and V of a text, and write them");
  auto flags = std::make_shared<CalibrateFlags>();
  CalibrateRequest& request = flags->request;
  command->add_option("MODEL", request.model, "A known name, a GGUF file or a Hugging Face folder")->required();
  command->add_option("--format", flags->format, "fp8_e4m3, fp8_e4m3fnuz, fp8_e5m2, nvfp4 or nvfp4_4over6")
      ->capture_default_str();
  command->add_option("--strategy", flags->strategy, "One scale a layer (tensor) or a KV head (head)")
      ->check(CLI::IsMember({"tensor", "head"}))
      ->capture_default_str();
  command->add_option("--method", flags->method, "What the scale is made of")
      ->check(CLI::IsMember({"amax", "percentile", "mse", "pow2"}))
      ->capture_default_str();
  command->add_option("--percentile", request.rule.percentile, "Of --method percentile")->capture_default_str();
  command->add_option("--text", request.text.text_path, "A file of plain text instead of the built-in texts");
  command->add_option("--chats", request.text.chats_path, "A JSONL file of chats instead of the built-in texts");
  command
      ->add_option("--tokens", request.text.tokens, "Most tokens to run; default: all of a file, 16384 of the built-in")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command
      ->add_option("--max-model-len", request.text.segment_tokens,
                   "Longest sequence that the text is cut into; default: 2048, or the model's context if shorter")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 40));
  command
      ->add_option("--output-tokens", request.output_tokens,
                   "Tokens to measure the output's KL on, by layer, K and V apart; 0: not")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_flag("--output-whole-only", request.output_whole_only,
                    "With --output-tokens: the whole cache by each method, not each layer");
  command->add_flag("--ignore-existing-scales", flags->ignore_existing_scales,
                    "Make new scales of a model that holds some already");
  AddOutputs(*command, *flags);
  AddThreadsFlag(*command, flags->threads);
  command->add_flag("-q,--quiet", flags->quiet, "No progress on standard error");
  command->callback([&chosen, flags] { chosen = [flags] { return RunCalibrateCommand(*flags); }; });
}

}  // namespace haypile
