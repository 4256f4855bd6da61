#include "checkpoint/checkpoint_kv_scales.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "checkpoint/kv_scale_name.h"
#include "checkpoint/kv_scale_tensors.h"
#include "formats/row_codec.h"

namespace haypile {
namespace {

// Scales by layer while they are being collected: an empty list is a layer that has none yet.
using Side = std::vector<std::vector<float>>;

struct Found {
  KvScaleName name;
  const StoredTensor* tensor;
};

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

// By name, so that a folder always gives the same example and the same complaint.
std::map<std::string, Found> FindScales(const SafetensorsFolder& tensors, const ModelSpec& spec) {
  std::map<std::string, Found> found;
  for (const auto& [text, tensor] : tensors.tensors()) {
    const auto name = ParseKvScaleName(text);
    if (!name || name->place.stack != LayerStack::kDecoder || name->place.layer < 0) continue;
    if (name->place.layer >= spec.layer_count || name->side == KvScaleSide::kQ) continue;
    if (name->side == KvScaleSide::kProbability) continue;
    if (name->kind == KvScaleKind::kBias && name->family != KvScaleFamily::kBmmQuantizer) continue;
    found.emplace(text, Found{*name, &tensor});
  }
  return found;
}

// Why a tensor is nothing that a cache here multiplies by; empty when it is.
std::string WhyUnused(const KvScaleName& name) {
  switch (name.kind) {
    case KvScaleKind::kAmax:
      return "is a range that a calibrator kept, not a scale";
    case KvScaleKind::kZeroPoint:
      return "is a zero point: these scales are for an asymmetric cache";
    case KvScaleKind::kBias:
      return "is an offset: these scales are for an affine cache";
    case KvScaleKind::kScale:
      break;
  }
  const bool known = name.family != KvScaleFamily::kTrtLlm && name.family != KvScaleFamily::kBmmQuantizer &&
                     name.family != KvScaleFamily::kCacheModule;
  return known ? "" : "has a name whose direction of scaling is not known";
}

class Collector {
 public:
  Collector(const KvQuantization& quantization, const ModelSpec& spec)
      : quantization_(quantization), spec_(spec), k_(Layers()), v_(Layers()) {}

  CheckpointKvScales Run(const std::map<std::string, Found>& found) {
    for (const auto& [text, scale] : found) Take(text, scale);
    if (out_.tensors == 0) return std::move(out_);
    if (!quantization_.kv_format.empty() && quantization_.kv_format != "fp8" && quantization_.kv_format != "nvfp4") {
      out_.unused = "the model declares them for a cache of " + quantization_.kv_format;
    }
    out_.divisor = DivisorOfKvScales(quantization_, attention_names_);
    if (!out_.unused.empty() || !out_.bad.empty()) return std::move(out_);
    for (size_t layer = 0; layer < k_.size(); ++layer) {
      const bool whole = !k_[layer].empty() && !v_[layer].empty();
      if (!whole) out_.layers_without.push_back(static_cast<int>(layer));
      for (Side* side : {&k_, &v_}) {
        if ((*side)[layer].empty()) (*side)[layer].assign(static_cast<size_t>(spec_.kv_heads), 1.0f);
      }
    }
    out_.k = std::move(k_);
    out_.v = std::move(v_);
    return std::move(out_);
  }

 private:
  Side Layers() const { return Side(static_cast<size_t>(spec_.layer_count)); }

  void Take(const std::string& text, const Found& found) {
    ++out_.tensors;
    if (out_.example.empty()) out_.example = text;
    if (const std::string why = WhyUnused(found.name); !why.empty()) {
      if (out_.unused.empty()) out_.unused = QuotedName(text) + " " + why;
      return;
    }
    if (found.name.family == KvScaleFamily::kAttention) attention_names_ = true;
    const std::vector<float> heads = HeadsOf(text, *found.tensor);
    if (heads.empty()) return;
    const auto layer = static_cast<size_t>(found.name.place.layer);
    if (found.name.side != KvScaleSide::kV) Put(text, heads, &k_[layer]);
    if (found.name.side != KvScaleSide::kK) Put(text, heads, &v_[layer]);
  }

  // One scale a KV head; empty, with `bad` said, when the tensor does not hold that.
  std::vector<float> HeadsOf(const std::string& text, const StoredTensor& tensor) {
    const auto heads = static_cast<size_t>(spec_.kv_heads);
    const int64_t count = ElementCount(tensor.shape).value_or(-1);
    if (count != 1 && count != spec_.kv_heads) {
      return Bad(text, "has shape " + ShapeText(tensor.shape) + "; wanted one value, or one for each of " +
                           std::to_string(heads) + " KV heads");
    }
    const auto decoded = DecodeScaleValues(tensor.type->name, tensor.bytes);
    if (!decoded.ok()) return Bad(text, "cannot be read: " + decoded.error().message());
    std::vector<float> values;
    for (const double value : *decoded) {
      values.push_back(static_cast<float>(value));
      if (IsUsableGlobalScale(values.back())) continue;
      return Bad(text, "holds " + NumberText(value) + "; a scale lies between 2^-100 and 2^100");
    }
    if (values.size() == 1) values.assign(heads, values[0]);
    return values;
  }

  std::vector<float> Bad(const std::string& text, const std::string& why) {
    if (out_.bad.empty()) out_.bad = QuotedName(text) + " " + why;
    return {};
  }

  // Two names for one scale may both be there, with one value.
  void Put(const std::string& text, const std::vector<float>& heads, std::vector<float>* into) {
    if (!into->empty() && *into != heads) Bad(text, "has another value than the same layer's scale of another name");
    *into = heads;
  }

  const KvQuantization& quantization_;
  const ModelSpec& spec_;
  Side k_, v_;
  bool attention_names_ = false;
  CheckpointKvScales out_;
};

}  // namespace

CheckpointKvScales CollectKvScales(const SafetensorsFolder& tensors, const KvQuantization& quantization,
                                   const ModelSpec& spec) {
  return Collector(quantization, spec).Run(FindScales(tensors, spec));
}

}  // namespace haypile
