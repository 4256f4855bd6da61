#include "calibrate/checkpoint_scales.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "calibrate/safetensors_append.h"
#include "checkpoint/config_quantization.h"
#include "checkpoint/safetensors.h"

namespace haypile {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kScalesFile = "kv_scales.safetensors";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kModelOptFile = "hf_quant_config.json";

Result<Json> ReadJsonFile(const std::string& path) {
  HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(path));
  auto json = ParseJson(text);
  if (!json.ok()) return std::move(json).error().WithContext("'" + path + "'");
  if (!json->is_object()) return Error(ErrorCode::kMalformed, "'" + path + "': expected a JSON object");
  return json;
}

bool IsKvScaleName(std::string_view name) {
  return name.ends_with(".k_scale") || name.ends_with(".v_scale") || name.ends_with(".kv_scale") ||
         name.ends_with(".output_scale");
}

// What stands before "layers.0." in the decoder that owns the cache; image and audio towers have layers of their own,
// but no token embedding.
Result<std::string> DecoderPrefix(const SafetensorsFolder& tensors, const std::string& folder) {
  constexpr std::string_view kEmbedding = "embed_tokens.weight";
  for (const auto& [name, tensor] : tensors.tensors()) {
    if (!name.ends_with(kEmbedding)) continue;
    const std::string prefix = name.substr(0, name.size() - kEmbedding.size());
    if (tensors.Find(prefix + "layers.0.self_attn.k_proj.weight") != nullptr) return prefix;
  }
  return Error(ErrorCode::kUnsupported,
               "'" + folder + "': no decoder with layers.0.self_attn.k_proj.weight beside its embed_tokens.weight");
}

bool SamePlace(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

Status CheckConvention(const CheckpointScalesRequest& request) {
  if (request.format == KvFormat::kFp8E4m3Fnuz) {
    return Error(
        ErrorCode::kUnsupported,
        "a checkpoint holds the scales of fp8_e4m3 on every platform, and engines double them themselves where "
        "the hardware is FNUZ; calibrate with --format fp8_e4m3");
  }
  const bool compressed = request.convention == ScaleConvention::kCompressedTensors;
  if (compressed && request.format != KvFormat::kFp8E4m3) {
    return Error(ErrorCode::kUnsupported, fmt::format("the compressed-tensors convention has no KV scheme for {}; use "
                                                      "--modelopt, or --format fp8_e4m3",
                                                      InfoOf(request.format).name));
  }
  if (!compressed && request.strategy == ScaleStrategy::kHead) {
    return Error(ErrorCode::kUnsupported,
                 "the ModelOpt convention has one scale a layer for K and one for V; use --strategy tensor");
  }
  if (!compressed && request.format != KvFormat::kFp8E4m3 && request.format != KvFormat::kNvfp4) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("the ModelOpt convention has no name for a KV cache of {}", InfoOf(request.format).name));
  }
  return {};
}

Status CheckTarget(const CheckpointScalesRequest& request) {
  std::error_code ignored;
  if (!fs::exists(request.target, ignored)) return {};
  if (!request.overwrite) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + request.target + "' exists; name a new folder, or give --overwrite to write into it");
  }
  // A folder of something else is never removed.
  if (!SamePlace(request.source, request.target) && !fs::exists(fs::path(request.target) / kConfigFile, ignored)) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + request.target + "' exists and is no model folder; name another one");
  }
  return {};
}

// A config that quantizes the cache alone gives way to the new one; one that quantizes weights must stay with them.
Status CheckWeightsArePlain(const std::string& source) {
  HAYPILE_TRY_ASSIGN(const std::string config, ReadFile(source + "/" + kConfigFile));
  std::string other;
  if (std::error_code ignored; fs::exists(fs::path(source) / kModelOptFile, ignored)) {
    HAYPILE_TRY_ASSIGN(other, ReadFile(source + "/" + kModelOptFile));
  }
  auto quantization = ReadKvQuantization(source, config, other);
  if (!quantization.ok()) return std::move(quantization).error();
  return {};
}

struct NamedScale {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::vector<NamedScale> NameScales(const CheckpointScalesRequest& request, const std::string& prefix,
                                   const KvScales& scales) {
  std::vector<NamedScale> named;
  for (size_t layer = 0; layer < scales.k.size(); ++layer) {
    for (const auto& [letter, side] : {std::pair{'k', &scales.k}, std::pair{'v', &scales.v}}) {
      const std::vector<float>& heads = (*side)[layer];
      const std::string attention = fmt::format("{}layers.{}.self_attn.", prefix, layer);
      if (request.convention == ScaleConvention::kModelOpt) {
        named.push_back({fmt::format("{}{}_proj.{}_scale", attention, letter, letter), {}, {heads[0]}});
      } else if (request.strategy == ScaleStrategy::kTensor) {
        named.push_back({fmt::format("{}{}_scale", attention, letter), {1}, {heads[0]}});
      } else {
        const auto count = static_cast<int64_t>(heads.size());
        named.push_back({fmt::format("{}{}_scale", attention, letter), {count, 1, 1}, heads});
      }
    }
  }
  return named;
}

Json CompressedTensorsConfig(const CheckpointScalesRequest& request) {
  const bool by_head = request.strategy == ScaleStrategy::kHead;
  return {{"quant_method", "compressed-tensors"},
          {"format", "dense"},
          {"quantization_status", "compressed"},
          {"config_groups", Json::object()},
          {"ignore", Json::array()},
          {"kv_cache_scheme",
           {{"num_bits", 8},
            {"type", "float"},
            {"symmetric", true},
            {"strategy", by_head ? "attn_head" : "tensor"},
            {"dynamic", false}}}};
}

Json Producer(const CheckpointScalesRequest& request) {
  return {{"name", "haypile"}, {"version", request.tool_version}};
}

Json ModelOptConfig(const CheckpointScalesRequest& request) {
  Json scheme = "NVFP4";
  if (request.format == KvFormat::kFp8E4m3) scheme = {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}};
  return {{"quant_method", "modelopt"}, {"quant_algo", nullptr},         {"config_groups", Json::object()},
          {"ignore", Json::array()},    {"producer", Producer(request)}, {"kv_cache_scheme", std::move(scheme)}};
}

Json ModelOptFile(const CheckpointScalesRequest& request) {
  return {{"producer", Producer(request)},
          {"quantization",
           {{"quant_algo", nullptr},
            {"kv_cache_quant_algo", request.format == KvFormat::kNvfp4 ? "NVFP4" : "FP8"},
            {"exclude_modules", Json::array()}}}};
}

// Puts tensors into a folder and then the config; `from` holds what is there now, and may be `into` itself.
Status WriteInto(const CheckpointScalesRequest& request, const std::string& from, const std::string& into,
                 const std::vector<NamedScale>& scales) {
  std::vector<F32Tensor> tensors;
  for (const NamedScale& scale : scales) tensors.push_back({scale.name, scale.shape, scale.values});
  std::error_code ignored;
  if (fs::exists(fs::path(from) / kSingleFile, ignored)) {
    HAYPILE_TRY(AppendToSafetensors(from + "/" + kSingleFile, into + "/" + kSingleFile, tensors));
  } else {
    HAYPILE_TRY(WriteFileAtomic(into + "/" + kScalesFile, SafetensorsText(tensors)));
    HAYPILE_TRY_ASSIGN(Json index, ReadJsonFile(from + "/" + kIndexFile));
    int64_t bytes = 0;
    for (const F32Tensor& tensor : tensors) {
      index["weight_map"][tensor.name] = kScalesFile;
      bytes += static_cast<int64_t>(tensor.values.size() * sizeof(float));
    }
    if (index.contains("metadata") && index["metadata"].is_object() && index["metadata"].contains("total_size") &&
        index["metadata"]["total_size"].is_number_integer()) {
      index["metadata"]["total_size"] = index["metadata"]["total_size"].get<int64_t>() + bytes;
    }
    HAYPILE_TRY(WriteFileAtomic(into + "/" + kIndexFile, DumpJson(index) + "\n"));
  }
  const bool model_opt = request.convention == ScaleConvention::kModelOpt;
  if (model_opt) HAYPILE_TRY(WriteFileAtomic(into + "/" + kModelOptFile, DumpJson(ModelOptFile(request)) + "\n"));
  HAYPILE_TRY_ASSIGN(Json config, ReadJsonFile(from + "/" + kConfigFile));
  config.erase("compression_config");
  if (config.contains("text_config") && config["text_config"].is_object()) {
    config["text_config"].erase("quantization_config");
    config["text_config"].erase("compression_config");
  }
  config["quantization_config"] = model_opt ? ModelOptConfig(request) : CompressedTensorsConfig(request);
  HAYPILE_TRY(WriteFileAtomic(into + "/" + kConfigFile, DumpJson(config) + "\n"));
  // One that was there would speak of another cache.
  if (!model_opt) fs::remove(fs::path(into) / kModelOptFile, ignored);
  return {};
}

Error IoError(const std::string& action, const std::string& path, const std::error_code& code) {
  return Error(ErrorCode::kIo, "cannot " + action + " '" + path + "': " + code.message());
}

// Copies what WriteInto does not write.
Status CopyOthers(const std::string& source, const std::string& target) {
  std::error_code code;
  fs::create_directories(target, code);
  if (code) return IoError("create", target, code);
  for (const fs::directory_entry& entry : fs::directory_iterator(source, code)) {
    const std::string name = entry.path().filename().string();
    if (name == kSingleFile || name == kConfigFile || name == kModelOptFile) continue;
    fs::copy(entry.path(), fs::path(target) / name, fs::copy_options::recursive, code);
    if (code) return IoError("copy", entry.path().string(), code);
  }
  if (code) return IoError("list", source, code);
  return {};
}

Status MoveIntoPlace(const std::string& built, const std::string& target) {
  std::error_code code;
  const std::string old = built + ".old";
  const bool replaces = fs::exists(target, code);
  if (replaces) fs::rename(target, old, code);
  if (!code) fs::rename(built, target, code);
  if (code) {
    std::error_code ignored;
    if (replaces && !fs::exists(target, ignored)) fs::rename(old, target, ignored);
    return IoError("rename to", target, code);
  }
  if (replaces) fs::remove_all(old, code);
  return {};
}

}  // namespace

Status CheckCheckpointScales(const CheckpointScalesRequest& request) {
  HAYPILE_TRY(CheckConvention(request));
  std::error_code ignored;
  if (!fs::is_directory(request.source, ignored)) {
    return Error(ErrorCode::kUnsupported,
                 "'" + request.source +
                     "' is no Hugging Face folder, so there is no checkpoint to copy; scales of "
                     "a GGUF model go into a file with --output or --sglang");
  }
  HAYPILE_TRY(CheckTarget(request));
  HAYPILE_TRY(CheckWeightsArePlain(request.source));
  HAYPILE_TRY_ASSIGN(const SafetensorsFolder tensors, SafetensorsFolder::Open(request.source));
  for (const auto& [name, tensor] : tensors.tensors()) {
    if (!IsKvScaleName(name)) continue;
    return Error(ErrorCode::kUnsupported, "'" + request.source + "' holds KV scales already, such as '" + name +
                                              "'; start from a checkpoint without");
  }
  auto prefix = DecoderPrefix(tensors, request.source);
  if (!prefix.ok()) return std::move(prefix).error();
  return {};
}

Status WriteCheckpointScales(const CheckpointScalesRequest& request, const KvScales& scales) {
  HAYPILE_TRY(CheckCheckpointScales(request));
  std::vector<NamedScale> named;
  {
    HAYPILE_TRY_ASSIGN(const SafetensorsFolder tensors, SafetensorsFolder::Open(request.source));
    HAYPILE_TRY_ASSIGN(const std::string prefix, DecoderPrefix(tensors, request.source));
    named = NameScales(request, prefix, scales);
  }
  if (SamePlace(request.source, request.target)) return WriteInto(request, request.source, request.source, named);
  const std::string target = fs::path(request.target).lexically_normal().string();
  const std::string built =
      fmt::format("{}.tmp.{}", target.ends_with('/') ? target.substr(0, target.size() - 1) : target, getpid());
  Status status = CopyOthers(request.source, built);
  if (status.ok()) status = WriteInto(request, request.source, built, named);
  if (status.ok()) status = MoveIntoPlace(built, request.target);
  if (!status.ok()) {
    std::error_code ignored;
    fs::remove_all(built, ignored);
  }
  return status;
}

}  // namespace haypile
