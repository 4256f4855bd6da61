#include "engines/key_bias.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/kv_scale_tensors.h"
#include "checkpoint/safetensors.h"

namespace haypile {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<std::optional<KeyBias>> ReadKeyBias(const std::string& folder) {
  auto tensors = SafetensorsFolder::Open(folder);
  if (!tensors.ok()) {
    const ErrorCode code = tensors.error().code();
    if (code == ErrorCode::kNotFound || code == ErrorCode::kUnsupported) return std::optional<KeyBias>();
    return std::move(tensors).error();
  }
  std::vector<KeyBias::Layer> layers;
  for (const auto& [name, tensor] : tensors->tensors()) {
    const TensorPlace place = PlaceOfTensor(name);
    if (!name.ends_with(".k_proj.bias") || place.layer < 0 || place.stack != LayerStack::kDecoder) continue;
    HAYPILE_TRY_ASSIGN(const std::vector<double> values, DecodeScaleValues(tensor.type->name, tensor.bytes));
    double squares = 0.0;
    for (const double value : values) squares += std::isfinite(value) ? value * value : 0.0;
    layers.push_back({place.layer, std::sqrt(squares)});
  }
  KeyBias bias;
  bias.layers = static_cast<int>(layers.size());
  if (layers.empty()) return std::optional(bias);
  std::vector<double> norms;
  for (const KeyBias::Layer& layer : layers) norms.push_back(layer.norm);
  bias.median_norm = Median(norms);
  for (const KeyBias::Layer& layer : layers) {
    if (layer.norm > kOutlierTimes * bias.median_norm && layer.norm > 0.0) bias.outliers.push_back(layer);
  }
  std::sort(bias.outliers.begin(), bias.outliers.end(),
            [](const KeyBias::Layer& a, const KeyBias::Layer& b) { return a.layer < b.layer; });
  return std::optional(bias);
}

}  // namespace haypile
