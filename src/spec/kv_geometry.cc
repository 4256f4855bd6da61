#include "spec/kv_geometry.h"

#include <charconv>

#include "base/check.h"

namespace haypile {

int64_t RowBytes(KvFormat format, int head_dim) {
  const KvFormatInfo& info = InfoOf(format);
  HAYPILE_CHECK(FitsHeadDim(info, head_dim));
  return int64_t{head_dim} * info.element_bits / 8 +
         int64_t{BlockScalesPerHead(info, head_dim)} * info.block_scale_bytes;
}

int64_t LayerKvGeometry::BytesPerToken() const {
  return kv_heads * (RowBytes(dtype.k, head_dim) + RowBytes(dtype.v, head_dim));
}

int64_t KvGeometry::BytesPerToken() const {
  int64_t bytes = 0;
  for (const auto& layer : layers) bytes += layer.BytesPerToken();
  return bytes;
}

Result<KvGeometry> MakeKvGeometry(const ModelSpec& model, KvDtype dtype, const std::vector<bool>& bf16_layers) {
  for (const KvFormat format : {dtype.k, dtype.v}) {
    const KvFormatInfo& info = InfoOf(format);
    if (FitsHeadDim(info, model.head_dim)) continue;
    return Error(ErrorCode::kInvalidArgument, "KV cache dtype '" + std::string(info.name) + "' stores blocks of " +
                                                  std::to_string(info.block_elements == 0 ? 16 : info.block_elements) +
                                                  " elements, which do not divide this model's head dim " +
                                                  std::to_string(model.head_dim) + "; choose a dtype whose block does");
  }
  KvGeometry geometry;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const bool keep = i < bf16_layers.size() && bf16_layers[i];
    geometry.layers.push_back({keep ? KvDtype{} : dtype, model.kv_heads, model.head_dim, model.layers[i].window});
  }
  return geometry;
}

int64_t SlidingTokensHeld(int window, int64_t chunk_tokens) { return window - 1 + chunk_tokens; }

Result<std::vector<bool>> ParseSkipLayers(const std::string& text, const ModelSpec& model) {
  std::vector<bool> skipped(model.layers.size(), false);
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find_first_of(", ", begin);
    if (end == std::string::npos) end = text.size();
    const std::string entry = text.substr(begin, end - begin);
    begin = end + 1;
    if (entry.empty()) continue;
    if (entry == "sliding_window") {
      for (size_t i = 0; i < skipped.size(); ++i) skipped[i] = skipped[i] || model.layers[i].window > 0;
      continue;
    }
    size_t index = 0;
    const auto [stop, code] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    if (code != std::errc() || stop != entry.data() + entry.size() || index >= skipped.size()) {
      return Error(ErrorCode::kInvalidArgument,
                   "--kv-cache-dtype-skip-layers: no layer '" + entry + "'; this model has layers 0 to " +
                       std::to_string(skipped.size() - 1) + "; give indices or sliding_window");
    }
    skipped[index] = true;
  }
  return skipped;
}

}  // namespace haypile
