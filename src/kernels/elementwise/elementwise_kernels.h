#pragma once

#include <cstdint>

#include "kernels/isa/isa.h"

namespace haypile {

// One instruction set's loops, each on the calling thread.
struct ElementwiseKernels {
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t n, float* out) noexcept;
  void (*add)(float* x, const float* y, int64_t count) noexcept;
  void (*silu_mul)(float* gate, const float* up, int64_t count) noexcept;
  void (*gelu_tanh_mul)(float* gate, const float* up, int64_t count) noexcept;
  void (*widen_scaled)(const uint16_t* bf16, float scale, int64_t count, float* out) noexcept;
  // One head: pairs (x[i], x[i + half]) turned by the angle whose cosine and sine stand at i.
  void (*rotate)(float* x, const float* cosines, const float* sines, int64_t half) noexcept;
  // Largest entry, -inf if there is none; NaN entries are passed over.
  float (*max)(const float* x, int64_t count) noexcept;
  // sum(exp(x - shift)); a stretch short enough for FP32 sums.
  float (*sum_exp)(const float* x, float shift, int64_t count) noexcept;
  // sum(exp(p - p_lse) * ((p - p_lse) - (q - q_lse))) over a short stretch; entries with exp() = 0 count 0.
  float (*kl)(const float* p, float p_lse, const float* q, float q_lse, int64_t count) noexcept;
  // exp itself, for its test: within 2 units in the last place; gradual below 2^-126, +inf above 88.72.
  void (*exp)(const float* x, int64_t count, float* out) noexcept;
};

extern const ElementwiseKernels kElementwiseScalar;
extern const ElementwiseKernels kElementwiseAvx2;
extern const ElementwiseKernels kElementwiseAvx512;
extern const ElementwiseKernels kElementwiseNeon;

const ElementwiseKernels& ElementwiseKernelsFor(Isa isa);

// Entries that max, sum_exp and kl may be given at once without hurting FP32 sums.
inline constexpr int64_t kShortStretch = 2048;

}  // namespace haypile
