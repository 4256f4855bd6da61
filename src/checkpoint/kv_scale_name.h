#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace haypile {

// The spellings of KV scales in checkpoints, by who writes them.
enum class KvScaleFamily {
  kAttention,     // <attention>.k_scale: compressed-tensors, Megatron export
  kEngine,        // <attention>.attn.k_scale: as the engines name the parameter
  kProjection,    // <attention>.k_proj.k_scale: ModelOpt's Hugging Face export
  kFused,         // <attention>.qkv_proj.k_scale
  kOutput,        // <attention>.k_proj.output_scale: Quark, FP8
  kShared,        // <attention>.kv_scale: one for K and V, deprecated
  kTrtLlm,        // ...kv_cache_scaling_factor: one for K and V, TensorRT-LLM engines
  kBmmQuantizer,  // <attention>.k_bmm_quantizer._amax: ModelOpt's calibration state, an amax and no scale
  kCacheModule,   // <attention>.k_cache.scale
};
inline constexpr int kKvScaleFamilies = 9;

enum class KvScaleSide { kK, kV, kBoth, kQ, kProbability };
enum class KvScaleKind { kScale, kAmax, kZeroPoint, kBias };
// Which part of a model a tensor's name lies in.
enum class LayerStack { kDecoder, kMtp, kEncoder, kTower };

struct TensorPlace {
  int layer = -1;      // -1: the name has no layer number
  std::string prefix;  // before the number: "model.layers", "transformer.h"
  LayerStack stack = LayerStack::kDecoder;
};

struct KvScaleName {
  KvScaleFamily family = KvScaleFamily::kAttention;
  KvScaleSide side = KvScaleSide::kK;
  KvScaleKind kind = KvScaleKind::kScale;
  TensorPlace place;
};

// The layer that any tensor's name speaks of: the first number after layers, h, block(s), layer or blk.
TensorPlace PlaceOfTensor(std::string_view tensor);

// Nothing when the name is not one of a KV scale. Weight and activation scales (weight_scale, input_scale) are not.
std::optional<KvScaleName> ParseKvScaleName(std::string_view tensor);

// "k_proj.k_scale", as people search for it.
std::string_view KvScaleFamilyName(KvScaleFamily family);

}  // namespace haypile
