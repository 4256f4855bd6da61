#include "spec/kv_pool_plan.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace haypile {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Pages of one sliding layer that a sequence needs at most: its window and a chunk, which need not start at a page.
int64_t SlidingPagesPerRequest(const KvPoolRequest& request, int window) {
  const int64_t whole = CeilDiv(request.max_model_len, request.page_tokens);
  const int64_t held = CeilDiv(SlidingTokensHeld(window, request.chunk_tokens), request.page_tokens) + 1;
  return std::min(whole, held);
}

Status CheckRequest(const KvPoolRequest& request) {
  if (request.page_tokens <= 0 || request.page_tokens % kKvPageMultiple != 0) {
    return Error(ErrorCode::kInvalidArgument, "--block-size " + std::to_string(request.page_tokens) +
                                                  ": pages hold a positive multiple of " +
                                                  std::to_string(kKvPageMultiple) + " tokens");
  }
  if (request.max_model_len <= 0) {
    return Error(ErrorCode::kInvalidArgument, "--max-model-len must be at least 1 token");
  }
  HAYPILE_CHECK((request.budget_bytes > 0) != (request.pool_tokens > 0));
  HAYPILE_CHECK_LT(0, request.chunk_tokens);
  return {};
}

void DivideBudget(int64_t budget_bytes, KvPoolPlan& plan) {
  if (plan.sliding_page_bytes == 0) {
    plan.full_pages = budget_bytes / plan.full_page_bytes;
    return;
  }
  const int64_t request_bytes =
      plan.full_pages_per_request * plan.full_page_bytes + plan.sliding_pages_per_request * plan.sliding_page_bytes;
  const double requests = static_cast<double>(budget_bytes) / static_cast<double>(request_bytes);
  plan.sliding_pages = static_cast<int64_t>(requests * static_cast<double>(plan.sliding_pages_per_request));
  if (plan.full_page_bytes > 0) {
    plan.full_pages = (budget_bytes - plan.sliding_pages * plan.sliding_page_bytes) / plan.full_page_bytes;
  } else {
    plan.sliding_pages = budget_bytes / plan.sliding_page_bytes;
  }
}

double RequestsAtMaxLen(const KvPoolPlan& plan) {
  double requests = INFINITY;
  if (plan.full_page_bytes > 0) {
    requests = static_cast<double>(plan.full_pages) / static_cast<double>(plan.full_pages_per_request);
  }
  if (plan.sliding_page_bytes > 0) {
    requests = std::min(requests,
                        static_cast<double>(plan.sliding_pages) / static_cast<double>(plan.sliding_pages_per_request));
  }
  return requests;
}

Status CheckOneRequestFits(const KvPoolRequest& request, const KvPoolPlan& plan) {
  if (plan.requests_at_max_len >= 1) return {};
  const int64_t request_bytes =
      plan.full_pages_per_request * plan.full_page_bytes + plan.sliding_pages_per_request * plan.sliding_page_bytes;
  const int64_t page_bytes = plan.full_page_bytes + plan.sliding_page_bytes;
  if (request.budget_bytes < page_bytes) {
    return Error(ErrorCode::kOutOfBudget, "the KV cache budget of " + std::to_string(request.budget_bytes) +
                                              " bytes does not hold one page of " +
                                              std::to_string(request.page_tokens) + " tokens (" +
                                              std::to_string(page_bytes) + " bytes); raise --kv-cache-memory");
  }
  return Error(ErrorCode::kOutOfBudget,
               "one request of " + std::to_string(request.max_model_len) + " tokens needs " +
                   std::to_string(request_bytes) + " bytes of KV cache, the budget is " +
                   std::to_string(request.budget_bytes) +
                   "; raise --kv-cache-memory, lower --max-model-len, or choose a smaller --kv-cache-dtype");
}

}  // namespace

Result<KvPoolPlan> PlanKvPool(const KvPoolRequest& request) {
  HAYPILE_TRY(CheckRequest(request));
  KvPoolPlan plan;
  plan.page_tokens = request.page_tokens;
  int window = 0;
  for (const LayerKvGeometry& layer : request.geometry.layers) {
    (layer.window > 0 ? plan.sliding_page_bytes : plan.full_page_bytes) += layer.BytesPerToken() * request.page_tokens;
    window = std::max(window, layer.window);
  }
  if (plan.full_page_bytes > 0) plan.full_pages_per_request = CeilDiv(request.max_model_len, request.page_tokens);
  if (plan.sliding_page_bytes > 0) plan.sliding_pages_per_request = SlidingPagesPerRequest(request, window);
  if (request.budget_bytes > 0) {
    DivideBudget(request.budget_bytes, plan);
  } else {
    if (plan.full_page_bytes > 0) plan.full_pages = CeilDiv(request.pool_tokens, request.page_tokens);
    plan.sliding_pages = std::max<int64_t>(1, request.sequences) * plan.sliding_pages_per_request;
  }
  plan.requests_at_max_len = RequestsAtMaxLen(plan);
  plan.pool_tokens = plan.full_page_bytes > 0
                         ? plan.full_pages * plan.page_tokens
                         : static_cast<int64_t>(plan.requests_at_max_len * static_cast<double>(request.max_model_len));
  if (request.budget_bytes > 0) HAYPILE_TRY(CheckOneRequestFits(request, plan));
  return plan;
}

}  // namespace haypile
