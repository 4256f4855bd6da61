#pragma once

#include "kvcache/kv_cache.h"
#include "models/kv_observer.h"
#include "spec/model_spec.h"

namespace haypile {

// Whether CuttingStore knows the dtype: FP8 E4M3 or E5M2 for both K and V.
bool CanCut(KvDtype dtype);

// The value of an FP8 format with the same sign and the largest magnitude not above |x|; beyond the format's range, its
// largest.
float CutToFormat(KvFormat format, float x);

// Makes a cache hold what a store that cuts towards zero would have put there, instead of the nearest value: vLLM
// 0.32's FP8 store on CPUs takes the upper bits of the scaled value. K and V become the cut value times its scale,
// which the cache then rounds to itself.
class CuttingStore : public KvRewriter {
 public:
  // `scales` as the cache has them; empty: 1.0.
  CuttingStore(const ModelSpec& spec, KvDtype dtype, KvScales scales);
  void Rewrite(int layer, float* k, float* v, int64_t rows) override;

 private:
  void Cut(KvFormat format, const std::vector<std::vector<float>>& scales, int layer, float* values,
           int64_t rows) const;

  const int64_t kv_heads_, head_dim_;
  const KvDtype dtype_;
  const KvScales scales_;
};

}  // namespace haypile
