#pragma once

#include <optional>
#include <string>

#include "planner/pool_plan.h"

namespace haypile {

// How many more tokens `plan` holds than `base`, step by step from what the formats promise to what the engine prints.
struct PoolRatio {
  double tokens = 0.0;            // of the printed pool tokens
  std::optional<double> theory;   // of the bits of one stored element, scales included
  double bytes_per_token = 0.0;   // of the bytes that one more token costs
  double with_fixed_bytes = 0.0;  // of a whole request's bytes, states and windows included
  std::string reason;             // why `tokens` is not `theory`, in whole sentences; empty when they agree
};

// Both plans must be for the same model, engine and memory, and neither refused. `theory_bits` are bits of one element
// of base and plan. `request_tokens` is the length of the request that fixed bytes are weighed against.
PoolRatio ComparePools(const PoolPlan& base, const PoolPlan& plan, std::optional<double> base_bits,
                       std::optional<double> plan_bits, int64_t request_tokens);

}  // namespace haypile
