#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

// The pool of recurrent states that SGLang sets apart before the tokens.
struct SglangStates {
  int64_t convolution = 0, recurrence = 0;  // bytes of one request, all layers of the rank
  int64_t slots = 0;                        // max_mamba_cache_size
  int64_t charged = 0;                      // bytes taken off what is left for tokens
  int64_t drafts = 0;                       // of `charged`: intermediate states of a drafter's tokens
  int requests_per_slot_ratio = 3;          // slots for each running request
  bool explicit_slots = false;              // by flag, not by the ratio
  std::string refusal;

  int64_t per_request() const { return convolution + recurrence; }
  bool any() const { return per_request() > 0; }
  std::string LogLine(const PlanRequest& request) const;
};

// States of one rank's layers, with the slots that `rest` (what --mem-fraction-static leaves) allows. `rest` 0: the
// slots that a pool of `tokens_bytes` implies.
SglangStates PlanSglangStates(const std::vector<LayerGeometry>& stage, const PlanRequest& request, int64_t rest,
                              int64_t tokens_bytes, int model_state_bytes);

}  // namespace haypile
