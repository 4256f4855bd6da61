#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"

namespace haypile {

// How a checkpoint's file spells a KV scale.
enum class ScaleSpelling {
  kAttention,   // ...self_attn.k_scale
  kAttn,        // ...self_attn.attn.k_scale
  kProjection,  // ...self_attn.k_proj.k_scale
  kFused,       // ...self_attn.qkv_proj.k_scale
  kOutput,      // ...self_attn.k_proj.output_scale
  kShared,      // ...kv_scale
};
std::string ScaleSpellingName(ScaleSpelling spelling);  // "k_proj.k_scale", ...

// The spelling of a KV scale's name; nothing for weight, input and other scales.
std::optional<ScaleSpelling> KvScaleSpelling(const std::string& tensor);
// The number after "layers." (or "h.", "blocks."); -1 where there is none.
int LayerOfTensor(const std::string& tensor);

// What a checkpoint holds of KV scales and says of its cache, from its headers and config alone.
struct CheckpointScales {
  std::string folder;
  ModelGeometry geometry;
  bool geometry_known = false;  // false: config.json is of an architecture that is not understood
  std::string model_dtype;      // of config.json: "bfloat16"; empty: not said
  int kv_layers = 0;            // layers that keep K and V
  std::set<ScaleSpelling> spellings;
  std::set<int> layers_with_scales;
  int tensors = 0;
  std::string example;         // one tensor's name
  bool per_head = false;       // a scale with more than one value
  bool weight_scales = false;  // *.weight_scale and the like: says nothing of the cache
  bool files_read = false;     // false: the folder holds no safetensors
};

// A Hugging Face folder (config.json, and safetensors where they are there) or a config.json alone. Errors as of
// SafetensorsFolder::Open and ReadFile; a folder without weights is not one.
Result<CheckpointScales> ReadCheckpointScales(const std::string& path);

}  // namespace haypile
