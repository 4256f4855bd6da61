#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compare/scales_in_use.h"
#include "engine/session.h"
#include "kvcache/kv_cache.h"
#include "spec/kv_geometry.h"

namespace haypile {

// One dtype under comparison: what its caches are made of.
struct Lane {
  KvDtype dtype;
  KvGeometry geometry;
  KvScales scales;
  ScaleSource scale_source = ScaleSource::kDefault;
  int page_tokens = 16;

  // A cache of `pool_tokens` tokens for `sequences` sequences of up to `max_len`.
  KvCacheConfig CacheConfig(int64_t pool_tokens, int64_t max_len, int64_t sequences) const {
    KvCacheConfig config;
    config.geometry = geometry;
    config.scales = scales;
    config.page_tokens = page_tokens;
    config.pool_tokens = pool_tokens;
    config.max_model_len = max_len;
    config.sequences = sequences;
    return config;
  }
};

}  // namespace haypile
