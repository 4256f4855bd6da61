#pragma once

#include <string>
#include <vector>

#include "checkpoint/config_quantization.h"
#include "checkpoint/safetensors.h"
#include "spec/model_spec.h"

namespace haypile {

// The KV scales among a checkpoint's tensors, as a cache uses them.
struct CheckpointKvScales {
  int tensors = 0;      // KV scales in the decoder's layers; 0: everything else is empty
  std::string example;  // one's name
  // [layer][Hkv], decode multipliers amax / divisor; empty when `unused` or `bad` says why.
  std::vector<std::vector<float>> k, v;
  KvScaleDivisor divisor;
  std::vector<int> layers_without;  // whose K or V has none: 1.0 there, as engines have it
  std::string unused;               // they are for something that no cache here is
  std::string bad;                  // which tensor no cache can use, and why
};

// Scales of K and V by every name that engines load: self_attn.k_scale, attn.k_scale, k_proj.k_scale,
// qkv_proj.k_scale, k_proj.output_scale, and kv_scale for both; of one value, or one for each KV head.
CheckpointKvScales CollectKvScales(const SafetensorsFolder& tensors, const KvQuantization& quantization,
                                   const ModelSpec& spec);

}  // namespace haypile
