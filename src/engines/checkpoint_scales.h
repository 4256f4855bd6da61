#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/kv_scale_name.h"
#include "planner/model_geometry.h"

namespace haypile {

// What a checkpoint holds of KV scales and says of its cache, from its headers and config alone.
struct CheckpointScales {
  std::string folder;
  ModelGeometry geometry;
  bool geometry_known = false;       // false: config.json is of an architecture that is not understood
  std::string model_dtype;           // of config.json: "bfloat16"; empty: not said
  int kv_layers = 0;                 // layers that keep K and V
  std::set<KvScaleFamily> families;  // of the scales of K and V in the decoder's layers
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
