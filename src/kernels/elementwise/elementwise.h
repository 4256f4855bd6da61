#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace haypile {

// The parts of a decoder between the products, over FP32 rows. Large inputs are split over the pool; no result depends
// on the number of threads.

// out[i] = x[i] * weight / sqrt(mean(x[i]^2) + epsilon) for each of `rows` rows of n; out may be x.
struct RmsNormArgs {
  const float* x = nullptr;
  const float* weight = nullptr;  // [n]
  float* out = nullptr;
  int64_t rows = 0;
  int64_t n = 0;
  float epsilon = 0;
};
void RmsNorm(const RmsNormArgs& args, ThreadPool& pool);

// x[i] += y[i].
void AddInPlace(float* x, const float* y, int64_t count, ThreadPool& pool);

// gate[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)).
void SiluMul(float* gate, const float* up, int64_t count, ThreadPool& pool);

// gate[i] = gelu(gate[i]) * up[i] with the tanh form, gelu(x) = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2.
void GeluTanhMul(float* gate, const float* up, int64_t count, ThreadPool& pool);

// out[i] = table[ids[i]] * scale, table BF16 [V][n]; every id must be in range.
void EmbedRows(const uint16_t* table, int64_t n, std::span<const int32_t> ids, float scale, float* out,
               ThreadPool& pool);

// log(sum(exp(x))), on the calling thread. Sums in FP32 over short stretches and in double over these, so that a row of
// a quarter million entries keeps an error near 1e-6. -inf for an empty row; NaN if any entry is NaN.
double LogSumExp(std::span<const float> x);

// Index of the largest entry, the first of equals; NaN entries never win; 0 for a row without numbers.
int64_t ArgMax(std::span<const float> x);

// KL(p || q) = sum p (log p - log q) in nats of two softmax distributions given as logits with their LogSumExp. Exact
// zeros of p count nothing. Never below 0 by more than rounding.
double KlDivergence(std::span<const float> p_logits, double p_lse, std::span<const float> q_logits, double q_lse);

}  // namespace haypile
