#include "compare/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/scales_in_use.h"

namespace haypile {
namespace {

// Scales of one side in words.
std::string ScaleWords(KvFormat format, const std::vector<std::vector<float>>& scales, ScaleSource source) {
  const KvFormatInfo& info = InfoOf(format);
  std::string words(info.summary);
  if (!info.has_global_scale) return words;
  if (scales.empty()) return words + ": 1.0 (default)";
  float low = INFINITY, high = 0;
  for (const auto& layer : scales) {
    for (const float scale : layer) {
      low = std::min(low, scale);
      high = std::max(high, scale);
    }
  }
  return low == high ? fmt::format("{}: {:g} ({})", words, low, NameOf(source))
                     : fmt::format("{}: {:g} to {:g} ({})", words, low, high, NameOf(source));
}

int64_t PairBytes(KvDtype dtype, int head_dim) { return RowBytes(dtype.k, head_dim) + RowBytes(dtype.v, head_dim); }

// Why the pool's ratio is not the formats': layers kept in bf16, and whole pages.
std::string GapReason(const Lane& baseline, const Lane& lane, const KvPoolPlan& baseline_plan, const KvPoolPlan& plan,
                      int64_t budget_bytes) {
  std::string reason;
  const auto kept = std::count_if(lane.geometry.layers.begin(), lane.geometry.layers.end(),
                                  [&](const LayerKvGeometry& layer) { return !(layer.dtype == lane.dtype); });
  if (kept > 0) reason = fmt::format("{} of {} layers stay in bf16; ", kept, lane.geometry.layers.size());
  const auto pages = [&](const Lane& of, const KvPoolPlan& p) {
    const int64_t page = p.full_page_bytes + p.sliding_page_bytes;
    return fmt::format("{} leaves {} of {} bytes, less than a page of {} tokens ({} bytes)", of.dtype.Name(),
                       budget_bytes - p.TotalBytes(), budget_bytes, p.page_tokens, page);
  };
  reason += "the pool holds whole pages: " + pages(baseline, baseline_plan) + "; " + pages(lane, plan);
  if (plan.sliding_page_bytes > 0 && plan.full_page_bytes > 0) {
    reason += fmt::format("; sliding-window layers take {} pages a request, full layers {}",
                          plan.sliding_pages_per_request, plan.full_pages_per_request);
  }
  return reason;
}

}  // namespace

Result<std::vector<Lane>> MakeLanes(const ModelSpec& spec, const CompareRequest& request,
                                    const CheckpointKvScales& own) {
  HAYPILE_TRY_ASSIGN(const std::vector<bool> skipped, ParseSkipLayers(request.skip_layers, spec));
  std::vector<Lane> lanes;
  for (const KvDtype dtype : request.dtypes) {
    Lane lane;
    lane.dtype = dtype;
    HAYPILE_TRY_ASSIGN(lane.geometry, MakeKvGeometry(spec, dtype, skipped));
    HAYPILE_TRY_ASSIGN(ScalesInUse in_use, FindScalesInUse(spec, own, request.scales_path, dtype));
    lane.scales = std::move(in_use.scales);
    lane.scale_source = in_use.source;
    lane.page_tokens = request.page_tokens;
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

Result<std::vector<CompareRun>> PlanCapacity(const ModelSpec& spec, const CompareRequest& request,
                                             const std::vector<Lane>& lanes) {
  std::vector<CompareRun> runs;
  std::vector<KvPoolPlan> plans;
  for (const Lane& lane : lanes) {
    KvCacheConfig config = lane.CacheConfig(0, request.max_model_len, 1);
    config.budget_bytes = request.kv_cache_memory_bytes;
    auto plan = PlanKvPool(config);
    if (!plan.ok()) return std::move(plan).error().WithContext("--kv-cache-dtype " + lane.dtype.Name());
    plans.push_back(*plan);
    CompareRun run;
    run.kv_cache_dtype = lane.dtype.Name();
    run.k_scale = ScaleWords(lane.dtype.k, lane.scales.k, lane.scale_source);
    run.v_scale = ScaleWords(lane.dtype.v, lane.scales.v, lane.scale_source);
    run.bytes_per_token = lane.geometry.BytesPerToken();
    run.pool_tokens = plan->pool_tokens;
    run.requests_at_max_len = plan->requests_at_max_len;
    run.ratio_to_baseline = static_cast<double>(run.pool_tokens) / static_cast<double>(plans[0].pool_tokens);
    run.ratio_in_theory = static_cast<double>(PairBytes(lanes[0].dtype, spec.head_dim)) /
                          static_cast<double>(PairBytes(lane.dtype, spec.head_dim));
    if (runs.size() > 0 && run.ratio_to_baseline != run.ratio_in_theory) {
      run.gap_reason = GapReason(lanes[0], lane, plans[0], *plan, request.kv_cache_memory_bytes);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace haypile
