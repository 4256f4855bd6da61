#pragma once

#include <cstdint>

#include "base/result.h"
#include "spec/kv_geometry.h"

namespace haypile {

// Pages hold a multiple of this many tokens: the kernels' tile.
inline constexpr int kKvPageMultiple = 16;

// What decides the pages of a Haypile pool.
struct KvPoolRequest {
  KvGeometry geometry;
  int page_tokens = 16;      // a multiple of kKvPageMultiple
  int64_t budget_bytes = 0;  // exactly one of budget_bytes and pool_tokens is positive
  int64_t pool_tokens = 0;
  int64_t max_model_len = 0;  // longest sequence to plan the split between full and sliding layers for
  int chunk_tokens = 512;     // most tokens of one sequence written in one forward pass
  int64_t sequences = 1;      // with pool_tokens: sequences whose sliding windows must fit at once
};

// How a pool divides a budget: pages for full-attention layers and for sliding-window layers. THE one rule: KvCache
// allocates exactly this, and the planner reports it.
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

// kInvalidArgument for a page or length that no pool can have. kOutOfBudget when not even one page of each kind, or
// (with a budget) not one request of max_model_len, fits.
Result<KvPoolPlan> PlanKvPool(const KvPoolRequest& request);

}  // namespace haypile
