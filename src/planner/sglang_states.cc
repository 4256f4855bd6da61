#include "planner/sglang_states.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/rank_layers.h"

namespace haypile {
namespace {

// From here on one slot more is charged: the pool's row for padding (mid 2026; earlier logs charge the slots alone).
constexpr EngineVersion kChargesPadding{0, 5, 15};

int64_t DtypeBytes(const std::string& dtype, int64_t automatic) {
  if (dtype == "float32") return 4;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  return automatic;
}

int Ratio(const PlanRequest& request) { return request.prefix_caching.value_or(true) ? 3 : 1; }

int64_t DraftTokens(const PlanRequest& request) { return request.speculative ? request.speculative->tokens : 0; }

// Slots that `budget` bytes hold. With drafts every running request keeps one state more for each drafted token.
int64_t SlotsIn(double budget, const SglangStates& states, const PlanRequest& request) {
  const double p = static_cast<double>(states.per_request());
  const double d = static_cast<double>(DraftTokens(request));
  const double own = request.version >= kChargesPadding ? p * (1 + d) : 0.0;
  const double each = p * (1 + d / states.requests_per_slot_ratio);
  return std::max<int64_t>(0, static_cast<int64_t>((budget - own) / each));
}

void Charge(const PlanRequest& request, SglangStates& states) {
  const int64_t padding = request.version >= kChargesPadding ? 1 : 0;
  int64_t running = states.slots / states.requests_per_slot_ratio;
  if (request.max_running_requests) running = std::min(running, *request.max_running_requests);
  states.drafts = (running + padding) * DraftTokens(request) * states.per_request();
  states.charged = (states.slots + padding) * states.per_request() + (DraftTokens(request) > 0 ? states.drafts : 0);
}

}  // namespace

std::string SglangStates::LogLine(const PlanRequest& request) const {
  // The pool has one row more than slots.
  const auto gb = [this](int64_t bytes) { return static_cast<double>(bytes * (slots + 1)) / (1LL << 30); };
  std::string line = fmt::format(
      "Mamba Cache is allocated. max_mamba_cache_size: {}, conv_state size: {:.2f}GB, "
      "ssm_state size: {:.2f}GB ",
      slots, gb(convolution), gb(recurrence));
  if (DraftTokens(request) > 0) {
    const int64_t rows = drafts / std::max<int64_t>(1, per_request());
    const auto part = [rows](int64_t bytes) { return static_cast<double>(bytes * rows) / (1LL << 30); };
    line += fmt::format("intermediate_ssm_state_cache size: {:.2f}GB intermediate_conv_window_cache size: {:.2f}GB ",
                        part(recurrence), part(convolution));
  }
  return line;
}

SglangStates PlanSglangStates(const std::vector<LayerGeometry>& stage, const PlanRequest& request, int64_t rest,
                              int64_t tokens_bytes, int model_state_bytes) {
  SglangStates states;
  const int convolution_bytes = static_cast<int>(DtypeBytes(request.mamba_cache_dtype, 2));
  const int recurrence_bytes =
      static_cast<int>(DtypeBytes(request.mamba_ssm_cache_dtype, model_state_bytes > 0 ? model_state_bytes : 4));
  for (const LayerGeometry& layer : stage) {
    if (layer.cache != CacheKind::kStateSpace) continue;
    const StateBytes bytes =
        StateBytesOfRank(layer.state, request.tensor_parallel, convolution_bytes, recurrence_bytes);
    states.convolution += bytes.convolution;
    states.recurrence += bytes.recurrence;
  }
  if (!states.any()) return states;
  states.requests_per_slot_ratio = Ratio(request);
  const double r = request.mamba_full_memory_ratio;
  if (request.max_mamba_cache_size) {
    states.slots = *request.max_mamba_cache_size;
    states.explicit_slots = true;
  } else if (!request.prefix_caching.value_or(true) && request.max_running_requests) {
    states.slots = *request.max_running_requests;
    states.explicit_slots = true;
  } else if (rest > 0) {
    states.slots = SlotsIn(static_cast<double>(rest) * r / (1 + r), states, request);
  } else {
    // States take r times the tokens' bytes.
    states.slots = SlotsIn(static_cast<double>(tokens_bytes) * r, states, request);
  }
  Charge(request, states);
  if (states.slots <= 0) {
    states.refusal = fmt::format(
        "Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
        "max_mamba_cache_size={} (mamba_cache_per_req={:.2f} MB)",
        states.slots, static_cast<double>(states.per_request()) / (1 << 20));
  }
  return states;
}

}  // namespace haypile
