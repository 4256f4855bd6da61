#include "engines/checkpoint_scales.h"

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
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
  const auto scale = ParseKvScaleName(name);
  if (!scale) {
    if (EndsWith(name, "weight_scale") || EndsWith(name, "weight_scale_inv")) scales.weight_scales = true;
    return;
  }
  const bool of_cache =
      scale->side == KvScaleSide::kK || scale->side == KvScaleSide::kV || scale->side == KvScaleSide::kBoth;
  if (scale->kind != KvScaleKind::kScale || !of_cache || scale->place.stack != LayerStack::kDecoder) return;
  scales.families.insert(scale->family);
  scales.layers_with_scales.insert(scale->place.layer);
  ++scales.tensors;
  if (scales.example.empty() || name < scales.example) scales.example = name;
  if (ElementCount(tensor.shape).value_or(1) > 1) scales.per_head = true;
}

}  // namespace

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
