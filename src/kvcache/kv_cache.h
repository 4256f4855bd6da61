#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "kernels/attention/paged_kv_view.h"
#include "spec/kv_geometry.h"

namespace haypile {

// FP32 decode multipliers outside the pages, per layer and KV head. Empty: 1.0 everywhere.
struct KvScales {
  std::vector<std::vector<float>> k;  // [layer][kv_head]
  std::vector<std::vector<float>> v;
};

struct KvCacheConfig {
  KvGeometry geometry;
  int page_tokens = 16;      // a multiple of 16
  int64_t budget_bytes = 0;  // exactly one of budget_bytes and pool_tokens is positive
  int64_t pool_tokens = 0;
  int64_t max_model_len = 0;  // longest sequence to plan the split between full and sliding layers for
  int chunk_tokens = 512;     // most tokens of one sequence written in one forward pass
  int64_t sequences = 1;      // with pool_tokens: sequences whose sliding windows must fit at once
  KvScales scales;
};

// How a pool divides a budget: pages for full-attention layers and for sliding-window layers. The planner's view of a
// Haypile pool; KvCache allocates exactly this.
struct KvPoolPlan {
  int64_t page_tokens = 0;
  int64_t full_pages = 0, sliding_pages = 0;
  int64_t full_page_bytes = 0, sliding_page_bytes = 0;                // summed over the layers of the kind
  int64_t full_pages_per_request = 0, sliding_pages_per_request = 0;  // for one request of max_model_len

  int64_t TotalBytes() const { return full_pages * full_page_bytes + sliding_pages * sliding_page_bytes; }
  // Tokens of context the pool holds: of the full-attention layers where there are any, else of whole requests.
  int64_t pool_tokens = 0;
  double requests_at_max_len = 0;
};

// kOutOfBudget when not even one page of each kind, or (with a budget) not one request of max_model_len, fits.
Result<KvPoolPlan> PlanKvPool(const KvCacheConfig& config);

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
  std::unique_ptr<State> state_;
};

}  // namespace haypile
