#pragma once

#include <string>

#include "base/result.h"
#include "calibrate/calibrate.h"

namespace haypile {

enum class ScaleConvention {
  kCompressedTensors,  // self_attn.{k,v}_scale, kv_cache_scheme in config.json
  kModelOpt,           // self_attn.{k,v}_proj.{k,v}_scale, hf_quant_config.json and the same in config.json
};

struct CheckpointScalesRequest {
  std::string source;  // a Hugging Face folder
  std::string target;  // a folder that does not exist yet, or `source` itself
  ScaleConvention convention = ScaleConvention::kCompressedTensors;
  ScaleStrategy strategy = ScaleStrategy::kTensor;
  KvFormat format = KvFormat::kFp8E4m3;
  std::string tool_version;
  bool overwrite = false;  // needed to write into `source`, and over an earlier result
};

// Everything that can be refused before the scales are known: a source that is no folder, holds KV scales
// already or a config that quantizes weights, a target that is in the way, and what the convention has no place for
// (kUnsupported).
Status CheckCheckpointScales(const CheckpointScalesRequest& request);

// Writes the scales as F32 tensors: into model.safetensors, or beside shards as kv_scales.safetensors with an entry for
// each in the index. The other files are copied. A new folder appears under its name only when it is whole; within
// `source` each file is replaced as a whole, tensors before the config that speaks of them.
Status WriteCheckpointScales(const CheckpointScalesRequest& request, const KvScales& scales);

}  // namespace haypile
