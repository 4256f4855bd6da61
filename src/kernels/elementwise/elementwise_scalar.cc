#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/elementwise/elementwise_kernels.h"

namespace haypile {
namespace {

// The reference: each formula as it is written, in double where that costs nothing in clarity.
void RmsNormRow(const float* x, const float* weight, float epsilon, int64_t n, float* out) noexcept {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  const float scale = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(n) + epsilon));
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void Add(float* x, const float* y, int64_t count) noexcept {
  for (int64_t i = 0; i < count; ++i) x[i] += y[i];
}

void Silu(float* gate, const float* up, int64_t count) noexcept {
  for (int64_t i = 0; i < count; ++i) gate[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void GeluTanh(float* gate, const float* up, int64_t count) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    const double x = gate[i];
    const double inner = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    gate[i] = static_cast<float>(0.5 * x * (1.0 + std::tanh(inner)) * up[i]);
  }
}

void WidenScaled(const uint16_t* bf16, float scale, int64_t count, float* out) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = uint32_t{bf16[i]} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    out[i] = value * scale;
  }
}

void Rotate(float* x, const float* cosines, const float* sines, int64_t half) noexcept {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cosines[i] - b * sines[i];
    x[i + half] = b * cosines[i] + a * sines[i];
  }
}

float Max(const float* x, int64_t count) noexcept {
  float max = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

float SumExp(const float* x, float shift, int64_t count) noexcept {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - shift);
  return static_cast<float>(sum);
}

float Kl(const float* p, float p_lse, const float* q, float q_lse, int64_t count) noexcept {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double log_p = double{p[i]} - p_lse;
    const double probability = std::exp(log_p);
    if (probability > 0) sum += probability * (log_p - (double{q[i]} - q_lse));
  }
  return static_cast<float>(sum);
}

void Exp(const float* x, int64_t count, float* out) noexcept {
  for (int64_t i = 0; i < count; ++i) out[i] = std::exp(x[i]);
}

}  // namespace

const ElementwiseKernels kElementwiseScalar = {RmsNormRow, Add, Silu,   GeluTanh, WidenScaled,
                                               Rotate,     Max, SumExp, Kl,       Exp};

}  // namespace haypile
