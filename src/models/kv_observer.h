#pragma once

#include <cstdint>

namespace haypile {

// Sees what a forward pass is about to store in the cache.
class KvObserver {
 public:
  virtual ~KvObserver() = default;
  // k and v are [rows][Hkv][D] in FP32, densely packed, for every row of the batch: K after bias, norm and RoPE, V
  // after bias. Called once a layer and pass, before the cache's format has touched them.
  virtual void OnKv(int layer, const float* k, const float* v, int64_t rows) = 0;
};

// Changes what a forward pass is about to store, to make a cache hold what another engine's would.
class KvRewriter {
 public:
  virtual ~KvRewriter() = default;
  // As KvObserver::OnKv, and after it; k and v may be changed in place.
  virtual void Rewrite(int layer, float* k, float* v, int64_t rows) = 0;
};

}  // namespace haypile
