#include "kvcache/kv_scales_file.h"

#include "base/file.h"
#include "base/json.h"
#include "formats/row_codec.h"

namespace haypile {
namespace {

using LayerScales = std::vector<std::vector<float>>;

Result<float> ScaleFrom(const Json& json, const std::string& where) {
  if (!json.is_number()) return Error(ErrorCode::kMalformed, where + ": expected a number, found " + json.type_name());
  const float scale = json.get<float>();
  if (!IsUsableGlobalScale(scale)) {
    return Error(ErrorCode::kMalformed,
                 where + ": a scale must be above zero and between 2^-100 and 2^100, found " + DumpJson(json));
  }
  return scale;
}

Result<std::vector<float>> LayerFrom(const Json& json, const std::string& where, int kv_heads) {
  if (!json.is_array()) {
    HAYPILE_TRY_ASSIGN(const float scale, ScaleFrom(json, where));
    return std::vector<float>(static_cast<size_t>(kv_heads), scale);
  }
  if (json.size() != static_cast<size_t>(kv_heads)) {
    return Error(ErrorCode::kMalformed, where + ": " + std::to_string(json.size()) + " scales for " +
                                            std::to_string(kv_heads) + " KV heads; give one number, or one a head");
  }
  std::vector<float> scales;
  for (size_t head = 0; head < json.size(); ++head) {
    HAYPILE_TRY_ASSIGN(const float scale, ScaleFrom(json[head], where + "[" + std::to_string(head) + "]"));
    scales.push_back(scale);
  }
  return scales;
}

Result<LayerScales> SideFrom(const Json& root, const std::string& side, int layers, int kv_heads) {
  if (!root.contains(side)) return Error(ErrorCode::kMalformed, "'" + side + "' is missing");
  const Json& json = root[side];
  if (!json.is_array()) {
    HAYPILE_TRY_ASSIGN(const std::vector<float> all, LayerFrom(json, side, kv_heads));
    return LayerScales(static_cast<size_t>(layers), all);
  }
  if (json.size() != static_cast<size_t>(layers)) {
    return Error(ErrorCode::kMalformed, side + ": " + std::to_string(json.size()) + " entries for " +
                                            std::to_string(layers) + " layers; give one number, or one entry a layer");
  }
  LayerScales scales;
  for (size_t layer = 0; layer < json.size(); ++layer) {
    HAYPILE_TRY_ASSIGN(std::vector<float> entry,
                       LayerFrom(json[layer], side + "[" + std::to_string(layer) + "]", kv_heads));
    scales.push_back(std::move(entry));
  }
  return scales;
}

Result<KvScales> ScalesFrom(const std::string& text, int layers, int kv_heads) {
  HAYPILE_TRY_ASSIGN(const Json root, ParseJson(text));
  if (!root.is_object() || root.value("schema", "") != "haypile.kv_scales/1") {
    return Error(ErrorCode::kMalformed, R"(expected {"schema": "haypile.kv_scales/1", "k": ..., "v": ...})");
  }
  KvScales scales;
  HAYPILE_TRY_ASSIGN(scales.k, SideFrom(root, "k", layers, kv_heads));
  HAYPILE_TRY_ASSIGN(scales.v, SideFrom(root, "v", layers, kv_heads));
  return scales;
}

}  // namespace

Result<KvScales> ReadKvScales(const std::string& path, int layers, int kv_heads) {
  constexpr uint64_t kLimitBytes = uint64_t{16} << 20;
  const std::string context = "--kv-scales '" + path + "'";
  auto text = ReadFile(path, kLimitBytes);
  if (!text.ok()) return std::move(text).error().WithContext("--kv-scales");
  auto scales = ScalesFrom(*text, layers, kv_heads);
  if (!scales.ok()) return std::move(scales).error().WithContext(context);
  return scales;
}

}  // namespace haypile
