#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "base/result.h"

namespace haypile {

struct SamplingOptions {
  double temperature = 0.0;  // 0: greedy
  double top_p = 1.0;
  uint64_t seed = 0;
};

// kInvalidArgument names the flag and its range.
Status CheckSampling(const SamplingOptions& options);

// Draws token ids from logits: greedy (lowest id among equals), or softmax(logits / temperature) cut to the smallest
// set of likeliest tokens whose probability reaches top_p. The same seed gives the same ids.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}
  int32_t Sample(std::span<const float> logits);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

// Index of the largest logit; NaN never wins.
int32_t Argmax(std::span<const float> logits);

}  // namespace haypile
