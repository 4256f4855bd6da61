#include <fmt/format.h>

#include <algorithm>

#include "planner/haypile_geometry.h"
#include "planner/number_text.h"
#include "planner/pool_plan.h"
#include "spec/kv_pool_plan.h"

namespace haypile {
namespace {

struct Layers {
  int full = 0, sliding = 0, window = 0;
  int64_t full_bytes = 0, sliding_bytes = 0;  // of one token, all layers of the kind
};

Layers CountLayers(const KvGeometry& geometry) {
  Layers layers;
  for (const LayerKvGeometry& layer : geometry.layers) {
    (layer.window > 0 ? layers.sliding : layers.full) += 1;
    (layer.window > 0 ? layers.sliding_bytes : layers.full_bytes) += layer.BytesPerToken();
    layers.window = std::max(layers.window, layer.window);
  }
  return layers;
}

// The longest request that a pool of this budget holds; 0: not one page.
int64_t LongestRequest(KvPoolRequest request) {
  int64_t low = 0, high = request.max_model_len;
  while (low < high) {
    request.max_model_len = (low + high + 1) / 2;
    if (PlanKvPool(request).ok()) {
      low = request.max_model_len;
    } else {
      high = request.max_model_len - 1;
    }
  }
  return low;
}

void AddDerivation(const KvPoolRequest& request, const KvPoolPlan& pool, const Layers& layers, PoolPlan& plan) {
  auto& steps = plan.derivation;
  if (layers.full > 0) {
    steps.push_back({"page of the full-attention layers", "page tokens x bytes of a token",
                     fmt::format("{} x {}", pool.page_tokens, Grouped(layers.full_bytes)),
                     Grouped(pool.full_page_bytes) + " bytes"});
    steps.push_back({"pages of one request", "ceil(max-model-len / page tokens)",
                     fmt::format("ceil({} / {})", Grouped(request.max_model_len), pool.page_tokens),
                     Grouped(pool.full_pages_per_request)});
  }
  if (layers.sliding > 0) {
    steps.push_back({"page of the sliding-window layers", "page tokens x bytes of a token",
                     fmt::format("{} x {}", pool.page_tokens, Grouped(layers.sliding_bytes)),
                     Grouped(pool.sliding_page_bytes) + " bytes"});
    steps.push_back(
        {"sliding pages of one request", "ceil((window - 1 + chunk) / page tokens) + 1",
         fmt::format("ceil(({} - 1 + {}) / {}) + 1, at most {}", layers.window, request.chunk_tokens, pool.page_tokens,
                     Grouped((request.max_model_len + pool.page_tokens - 1) / pool.page_tokens)),
         Grouped(pool.sliding_pages_per_request)});
    steps.push_back({"sliding pages", "budget / bytes of one request x sliding pages of one request",
                     fmt::format("{} / {} x {}", Grouped(request.budget_bytes),
                                 Grouped(pool.full_pages_per_request * pool.full_page_bytes +
                                         pool.sliding_pages_per_request * pool.sliding_page_bytes),
                                 Grouped(pool.sliding_pages_per_request)),
                     Grouped(pool.sliding_pages)});
  }
  if (layers.full > 0) {
    steps.push_back({"full pages", "floor((budget - sliding pages) / full page)",
                     fmt::format("floor(({} - {}) / {})", Grouped(request.budget_bytes),
                                 Grouped(pool.sliding_pages * pool.sliding_page_bytes), Grouped(pool.full_page_bytes)),
                     Grouped(pool.full_pages)});
    steps.push_back({"tokens", "full pages x page tokens",
                     fmt::format("{} x {}", Grouped(pool.full_pages), pool.page_tokens), Grouped(pool.pool_tokens)});
  }
}

void AddShares(const KvPoolPlan& pool, const Layers& layers, PoolPlan& plan) {
  const int64_t full = pool.full_pages * pool.full_page_bytes, sliding = pool.sliding_pages * pool.sliding_page_bytes;
  if (full > 0) plan.shares.push_back({fmt::format("full attention, {} layers", layers.full), full});
  if (sliding > 0) plan.shares.push_back({fmt::format("sliding window, {} layers", layers.sliding), sliding});
  if (plan.pool_bytes > plan.used_bytes) plan.shares.push_back({"floor of pages", plan.pool_bytes - plan.used_bytes});
}

}  // namespace

Result<PoolPlan> PlanHaypilePool(const ModelGeometry& model, const PlanRequest& request) {
  PoolPlan plan;
  plan.engine = EngineKind::kHaypile;
  plan.kv_cache_dtype = request.kv_cache_dtype;
  if (std::string reason = HaypileRefusal(model); !reason.empty()) {
    plan.refused = Refusal{std::move(reason), std::nullopt};
    return plan;
  }
  HAYPILE_TRY_ASSIGN(const KvPoolRequest asked, HaypilePoolRequest(model, request));
  HAYPILE_TRY_ASSIGN(const KvDtype dtype,
                     ParseKvDtype(request.kv_cache_dtype == "auto" ? "bf16" : request.kv_cache_dtype));
  const Layers layers = CountLayers(asked.geometry);
  plan.resolved_kv_cache_dtype = dtype.Name();
  plan.pool_bytes = asked.budget_bytes;
  plan.bytes_per_token = layers.full_bytes;
  plan.block_size = asked.page_tokens;
  plan.max_model_len = asked.max_model_len;
  if (asked.max_model_len > model.max_positions) {
    plan.refused = Refusal{fmt::format("{} tokens of context are more than the {} this model was made for",
                                       asked.max_model_len, model.max_positions),
                           model.max_positions};
    return plan;
  }
  auto divided = PlanKvPool(asked);
  if (!divided.ok()) {
    if (divided.error().code() != ErrorCode::kOutOfBudget) return std::move(divided).error();
    plan.refused = Refusal{divided.error().message(), LongestRequest(asked)};
    return plan;
  }
  const KvPoolPlan& pool = *divided;
  plan.bytes_per_request = pool.sliding_pages_per_request * pool.sliding_page_bytes;
  plan.used_bytes = pool.TotalBytes();
  plan.num_blocks = layers.full > 0 ? pool.full_pages : pool.sliding_pages;
  plan.pool_tokens = pool.pool_tokens;
  plan.max_concurrency = pool.requests_at_max_len;
  AddDerivation(asked, pool, layers, plan);
  AddShares(pool, layers, plan);
  if (request.tensor_parallel > 1 || request.pipeline_parallel > 1) {
    plan.warnings.push_back("Haypile's engine runs in one process: --tp and --pp do not divide its pool.");
  }
  return plan;
}

}  // namespace haypile
