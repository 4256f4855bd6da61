#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "spec/model_spec.h"

namespace haypile {

// Rotary position embedding of one kind of layer: the angle of dim pair i (dims i and i + D/2) at position p is
// p * frequencies[i]; cosines and sines are multiplied by attention_factor (yarn; 1 otherwise).
struct RopeFrequencies {
  std::vector<float> frequencies;  // D / 2, radians per token
  float attention_factor = 1.0f;
};

// The spec's scaling rule over head dim D (even), then its frequency factors (D / 2 of them, or none). llama3 and yarn
// want original_max_position; where it is 0, `max_positions` stands in.
RopeFrequencies MakeRopeFrequencies(const RopeSpec& spec, int head_dim, int64_t max_positions);

// Fills cosines and sines, [positions][D / 2] each, once for all layers of a forward pass. Angles are rounded to FP32
// before the cosine, as the models' reference implementation does.
void FillRopeTables(const RopeFrequencies& rope, std::span<const int64_t> positions, float* cosines, float* sines,
                    ThreadPool& pool);

// Turns every head of x [rows][heads][D] in place by its row of the tables.
struct RopeArgs {
  float* x = nullptr;
  const float* cosines = nullptr;
  const float* sines = nullptr;
  int64_t rows = 0;
  int heads = 0;
  int head_dim = 0;
};
void ApplyRope(const RopeArgs& args, ThreadPool& pool);

}  // namespace haypile
