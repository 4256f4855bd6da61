#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint_kv_scales.h"
#include "kvcache/kv_cache.h"
#include "spec/kv_dtype.h"
#include "spec/model_spec.h"

namespace haypile {

enum class ScaleSource { kDefault, kFile, kModel };
const char* NameOf(ScaleSource source);  // "default", "file", "model"

// The scales of one cache and where they are from. Without lists (kDefault) every scale is 1.0.
struct ScalesInUse {
  KvScales scales;
  ScaleSource source = ScaleSource::kDefault;
};

// The scales that a cache of `dtype` gets: of the --kv-scales file when `path` names one, as they stand there; else the
// model's own, turned into the dtype's (amax / the format's largest value, whatever format they were made for); else
// 1.0. kMalformed for a file that breaks its form, and for scales of the model that no cache can use.
Result<ScalesInUse> FindScalesInUse(const ModelSpec& spec, const CheckpointKvScales& own, const std::string& path,
                                    KvDtype dtype);

// What to tell of the model's own scales when caches of these dtypes are asked for: in use, or not and why. Empty when
// there is nothing to say: no scales, a file instead, or only dtypes without a scale.
std::string OwnScalesNotice(const CheckpointKvScales& own, const std::string& path, std::span<const KvDtype> dtypes);

}  // namespace haypile
