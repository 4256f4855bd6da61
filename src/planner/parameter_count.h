#pragma once

#include <cstdint>

#include "planner/model_config_shape.h"

namespace haypile {

// Parameters of a model's text part by what quantizers treat alike; MTP layers and encoders of images or sound are left
// out. Counts are 0 when the config lacks a size that they need.
struct ParameterTotals {
  int64_t embeddings = 0;  // input embedding, output head when it is a tensor of its own, learned positions
  int64_t attention = 0;   // attention and state layers
  int64_t dense = 0;       // feed-forward layers that every token takes, shared experts without them
  int64_t shared_experts = 0;
  int64_t experts = 0;           // routed experts, all of them
  int64_t active_experts = 0;    // those that one token is routed to
  bool tied_embeddings = false;  // input embedding and output head are one tensor
  int64_t small = 0;             // norms, biases, routers, gates, convolutions

  int64_t Total() const { return embeddings + attention + dense + shared_experts + experts + small; }
  int64_t Active() const { return Total() - experts + active_experts; }
};

// `outer` is the whole config.json, which may say whether embeddings are tied when the text part does not. kMalformed
// for a field of the wrong type or range.
Result<ParameterTotals> CountParameters(const ConfigObject& config, const ConfigObject& outer, const ModelShape& shape);

}  // namespace haypile
