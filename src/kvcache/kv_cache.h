#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "kernels/attention/paged_kv_view.h"
#include "spec/kv_geometry.h"
#include "spec/kv_pool_plan.h"

namespace haypile {

// FP32 decode multipliers outside the pages, per layer and KV head. Empty: 1.0 everywhere.
struct KvScales {
  std::vector<std::vector<float>> k;  // [layer][kv_head]
  std::vector<std::vector<float>> v;
};

// The pool that PlanKvPool divides, and the scales of what it holds.
struct KvCacheConfig : KvPoolRequest {
  KvScales scales;
};

using SequenceId = int32_t;

// The paged pool. Not thread-safe: one forward pass at a time owns it.
class KvCache {
 public:
  static Result<std::unique_ptr<KvCache>> Create(KvCacheConfig config);
  ~KvCache();

  const KvPoolPlan& plan() const { return plan_; }
  const KvCacheConfig& config() const { return config_; }
  int64_t allocated_bytes() const;

  SequenceId AddSequence();
  void RemoveSequence(SequenceId id);  // frees all its pages
  int64_t Length(SequenceId id) const;

  // Makes room for `tokens` more tokens and frees the sliding pages that no later query can see. kOutOfBudget when
  // pages run out: the sequence then has the length and the keys and values it had.
  Status Extend(SequenceId id, int64_t tokens);

  // A new sequence with the same tokens in pages of its own (copied, not shared). kOutOfBudget as Extend.
  Result<SequenceId> CloneSequence(SequenceId id);

  // Views for the kernels, valid until the next change of the cache.
  PagedKvView LayerView(int layer) const;
  const int32_t* PageTable(SequenceId id, int layer) const;

  int64_t free_full_pages() const;
  int64_t free_sliding_pages() const;
  int64_t pages_held(SequenceId id, bool sliding) const;

 private:
  KvCache();
  struct State;
  KvCacheConfig config_;
  KvPoolPlan plan_;
  std::vector<AlignedBuffer> layer_pages_;
  std::unique_ptr<std::atomic<bool>[]> layer_holds_special_codes_;
  std::unique_ptr<State> state_;
};

}  // namespace haypile
