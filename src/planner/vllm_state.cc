#include <fmt/format.h>

#include "planner/number_text.h"
#include "planner/vllm_layers.h"

namespace haypile {
namespace {

// Elements of the two parts of a state on one rank, and how they were found.
struct StateParts {
  int64_t conv = 0;
  int64_t recurrent = 0;
  std::string formula;
  std::string substituted;
};

// vLLM shards a width evenly and stops where it cannot.
int64_t Shard(int64_t width, int tp, PoolPlan& plan) {
  if (width % tp != 0 && !plan.refused) {
    plan.refused = Refusal{fmt::format("{} is not divisible by {}", width, tp), std::nullopt};
  }
  return width / tp;
}

std::string Times(int64_t a, int64_t b) { return fmt::format("{} * {}", Grouped(a), Grouped(b)); }

// Columns of the convolution kept for a request: speculative tokens may be rolled back.
int64_t Columns(const StateShape& state, const VllmSetup& setup) {
  return state.conv_kernel - 1 + setup.shape.speculative_tokens;
}

StateParts DeltaNet(const StateShape& state, const VllmSetup& setup, int tp, PoolPlan& plan) {
  const int64_t keys = int64_t{state.key_heads} * state.key_head_dim;
  const int64_t values = int64_t{state.value_heads} * state.value_head_dim;
  const int64_t width = Shard(2 * keys + values, tp, plan);
  const int64_t heads = Shard(state.value_heads, tp, plan);
  StateParts parts;
  parts.conv = width * Columns(state, setup);
  parts.recurrent =
      heads * state.value_head_dim * (state.kind == StateKind::kKda ? state.value_head_dim : state.key_head_dim);
  parts.formula = "(2 Hk Dk + Hv Dv)/tp * (K-1+S) * conv bytes + Hv/tp * Dv * Dk * state bytes";
  return parts;
}

StateParts Mamba2(const StateShape& state, const VllmSetup& setup, int tp, PoolPlan& plan) {
  // Groups that the ranks do not divide are replicated with the heads that read them.
  const int64_t groups = state.groups % tp == 0 ? state.groups : tp;
  const int64_t width = Shard(state.intermediate + 2 * groups * state.state_size, tp, plan);
  StateParts parts;
  parts.conv = width * Columns(state, setup);
  parts.recurrent = Shard(state.value_heads, tp, plan) * state.value_head_dim * state.state_size;
  parts.formula = "(width + 2 groups N)/tp * (K-1+S) * conv bytes + heads/tp * head dim * N * state bytes";
  return parts;
}

StateParts Mamba1(const StateShape& state, int tp, PoolPlan& plan) {
  const int64_t width = Shard(state.intermediate, tp, plan);
  StateParts parts;
  parts.conv = width * (state.conv_kernel - 1);
  parts.recurrent = width * state.state_size;
  parts.formula = "width/tp * (K-1) * conv bytes + width/tp * N * state bytes";
  return parts;
}

StateParts ShortConv(const StateShape& state, int tp, PoolPlan& plan) {
  StateParts parts;
  parts.conv = Shard(state.intermediate, tp, plan) * (state.conv_kernel - 1);
  parts.formula = "width/tp * (K-1) * conv bytes";
  return parts;
}

}  // namespace

Result<int64_t> VllmStateBytes(const StateShape& state, const VllmSetup& setup, const PlanRequest& request,
                               PoolPlan& plan) {
  const int tp = request.tensor_parallel;
  StateParts parts;
  switch (state.kind) {
    case StateKind::kGatedDeltaNet:
    case StateKind::kKda:
      parts = DeltaNet(state, setup, tp, plan);
      break;
    case StateKind::kMamba2:
      parts = Mamba2(state, setup, tp, plan);
      break;
    case StateKind::kMamba1:
      parts = Mamba1(state, tp, plan);
      break;
    case StateKind::kShortConv:
      parts = ShortConv(state, tp, plan);
      break;
  }
  if (parts.conv <= 0) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("the shape of the {} state is not known", StateKindName(state.kind)));
  }
  const int64_t bytes = parts.conv * setup.conv_bytes + parts.recurrent * setup.ssm_bytes;
  const std::string what = "bytes of one state (m)";
  for (const DerivationStep& step : plan.derivation) {
    if (step.what == what) return bytes;
  }
  plan.derivation.push_back(
      {what, parts.formula,
       fmt::format("{} + {}", Times(parts.conv, setup.conv_bytes), Times(parts.recurrent, setup.ssm_bytes)),
       fmt::format("{} bytes", Grouped(bytes))});
  return bytes;
}

}  // namespace haypile
