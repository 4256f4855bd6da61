#pragma once

#include "spec/model_spec.h"

namespace haypile {

// The shapes of SmolLM2 135M, for tests; RoPE and what else the forward pass needs keep their defaults.
inline ModelSpec SmolLm2Spec() {
  ModelSpec model;
  model.layer_count = 30;
  model.hidden_size = 576;
  model.query_heads = 9;
  model.kv_heads = 3;
  model.head_dim = 64;
  model.feed_forward_size = 1536;
  model.vocabulary_size = 49152;
  model.tied_output = true;
  model.layers.resize(30);
  return model;
}

}  // namespace haypile
