#include "engines/checkpoint_scales.h"

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "engines/log_scan.h"
#include "planner/model_config.h"

namespace haypile {
namespace {

bool EndsWith(const std::string& text, std::string_view end) { return text.ends_with(end); }

int KvLayers(const ModelGeometry& geometry) {
  int layers = 0;
  for (const LayerGeometry& layer : geometry.layers) {
    layers += layer.cache == CacheKind::kFullAttention || layer.cache == CacheKind::kSlidingWindow ||
              layer.cache == CacheKind::kChunkedAttention || layer.cache == CacheKind::kMla;
  }
  return layers;
}

Status ReadConfig(const std::string& path, CheckpointScales& scales) {
  HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(path));
  std::string quant;
  const std::string quant_path = (std::filesystem::path(path).parent_path() / "hf_quant_config.json").string();
  std::error_code ignored;
  if (std::filesystem::exists(quant_path, ignored)) {
    HAYPILE_TRY_ASSIGN(quant, ReadFile(quant_path));
  }
  auto geometry = ParseModelConfig(text, path, quant);
  if (geometry.ok()) {
    scales.geometry = std::move(geometry).value();
    scales.geometry_known = true;
    scales.kv_layers = KvLayers(scales.geometry);
  } else if (geometry.error().code() != ErrorCode::kUnsupported) {
    return std::move(geometry).error();
  }
  HAYPILE_TRY_ASSIGN(const Json config, ParseJson(text));
  const Json* part = &config;
  for (const char* key : {"torch_dtype", "dtype"}) {
    for (const char* nested : {"", "text_config"}) {
      if (*nested != 0 && config.is_object() && config.contains(nested)) part = &config[nested];
      if (part->is_object() && part->contains(key) && (*part)[key].is_string()) {
        if (scales.model_dtype.empty()) scales.model_dtype = (*part)[key].get<std::string>();
      }
      part = &config;
    }
  }
  return {};
}

void TakeTensor(const std::string& name, const StoredTensor& tensor, CheckpointScales& scales) {
  const auto spelling = KvScaleSpelling(name);
  if (!spelling) {
    if (EndsWith(name, "weight_scale") || EndsWith(name, "weight_scale_inv")) scales.weight_scales = true;
    return;
  }
  scales.spellings.insert(*spelling);
  scales.layers_with_scales.insert(LayerOfTensor(name));
  ++scales.tensors;
  if (scales.example.empty() || name < scales.example) scales.example = name;
  if (ElementCount(tensor.shape).value_or(1) > 1) scales.per_head = true;
}

}  // namespace

std::string ScaleSpellingName(ScaleSpelling spelling) {
  switch (spelling) {
    case ScaleSpelling::kAttention:
      return "self_attn.k_scale";
    case ScaleSpelling::kAttn:
      return "attn.k_scale";
    case ScaleSpelling::kProjection:
      return "k_proj.k_scale";
    case ScaleSpelling::kFused:
      return "qkv_proj.k_scale";
    case ScaleSpelling::kOutput:
      return "k_proj.output_scale";
    case ScaleSpelling::kShared:
      break;
  }
  return "kv_scale";
}

std::optional<ScaleSpelling> KvScaleSpelling(const std::string& tensor) {
  for (const char* side : {"k", "v"}) {
    const std::string scale = std::string(side) + "_scale", projection = std::string(side) + "_proj.";
    // qkqkv_proj is what a loader's rename of "k_proj" inside "qkv_proj" leaves.
    for (const char* fused : {"qkv_proj.", "qkqkv_proj.", "qkvqkv_proj."}) {
      if (EndsWith(tensor, "." + std::string(fused) + scale)) return ScaleSpelling::kFused;
    }
    if (EndsWith(tensor, "." + projection + scale)) return ScaleSpelling::kProjection;
    if (EndsWith(tensor, "." + projection + "output_scale")) return ScaleSpelling::kOutput;
    if (EndsWith(tensor, ".attn." + scale)) return ScaleSpelling::kAttn;
    if (EndsWith(tensor, "." + scale)) return ScaleSpelling::kAttention;
  }
  if (EndsWith(tensor, ".kv_scale") || EndsWith(tensor, ".kv_cache_scaling_factor")) return ScaleSpelling::kShared;
  return std::nullopt;
}

int LayerOfTensor(const std::string& tensor) {
  for (const std::string_view marker : {"layers.", ".h.", "blocks.", "block."}) {
    const auto rest = After(tensor, marker);
    if (!rest) continue;
    const auto number = CountAt(rest->substr(0, rest->find('.')));
    if (number && *number >= 0 && *number < 1'000'000) return static_cast<int>(*number);
  }
  return -1;
}

Result<CheckpointScales> ReadCheckpointScales(const std::string& path) {
  namespace fs = std::filesystem;
  CheckpointScales scales;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  scales.folder = is_folder ? path : fs::path(path).parent_path().string();
  HAYPILE_TRY(ReadConfig(is_folder ? path + "/config.json" : path, scales));
  if (!is_folder) return scales;
  auto folder = SafetensorsFolder::Open(path);
  if (!folder.ok()) {
    if (folder.error().code() == ErrorCode::kNotFound && !fs::exists(path + "/model.safetensors.index.json", ignored)) {
      return scales;
    }
    return std::move(folder).error();
  }
  scales.files_read = true;
  for (const auto& [name, tensor] : folder->tensors()) TakeTensor(name, tensor, scales);
  return scales;
}

}  // namespace haypile
