#include "calibrate/scales_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace haypile {
namespace {

Json SideJson(const std::vector<std::vector<float>>& layers) {
  Json side = Json::array();
  for (const std::vector<float>& heads : layers) {
    const bool alike = std::ranges::all_of(heads, [&](float scale) { return scale == heads[0]; });
    side.push_back(alike ? Json(heads[0]) : Json(heads));
  }
  return side;
}

// The larger of K's and V's scales over the KV heads of one rank: split while there are enough, else repeated.
float SharedScale(const KvScales& scales, size_t layer, int rank, int tp_size) {
  const auto heads = static_cast<int>(scales.k[layer].size());
  const int first = heads * rank / tp_size;
  const int count = std::max(1, heads / tp_size);
  float shared = 0;
  for (int head = first; head < first + count; ++head) {
    shared = std::max({shared, scales.k[layer][static_cast<size_t>(head)], scales.v[layer][static_cast<size_t>(head)]});
  }
  return shared;
}

}  // namespace

std::string KvScalesFileText(const KvScales& scales) {
  const Json json{{"schema", "haypile.kv_scales/1"}, {"k", SideJson(scales.k)}, {"v", SideJson(scales.v)}};
  return DumpJson(json) + "\n";
}

Result<std::string> SglangScalesText(const KvScales& scales, const std::string& model_type, int tp_size) {
  const auto heads = static_cast<int>(scales.k.at(0).size());
  if (tp_size < 1 || (heads % tp_size != 0 && tp_size % heads != 0)) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("--tp-size {}: {} KV heads can be neither divided nor repeated over {} ranks", tp_size,
                             heads, tp_size));
  }
  Json ranks = Json::object();
  for (int rank = 0; rank < tp_size; ++rank) {
    Json layers = Json::object();
    for (size_t layer = 0; layer < scales.k.size(); ++layer) {
      layers[std::to_string(layer)] = SharedScale(scales, layer, rank, tp_size);
    }
    ranks[std::to_string(rank)] = std::move(layers);
  }
  const Json json{{"model_type", model_type},
                  {"kv_cache", {{"dtype", "float8_e4m3fn"}, {"scaling_factor", std::move(ranks)}}}};
  return DumpJson(json) + "\n";
}

}  // namespace haypile
