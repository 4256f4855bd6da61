#include <cmath>
#include <cstring>

#include "kernels/matmul/gemv.h"

namespace haypile {
namespace {

// The reference: rows as they are, sixteen partial sums so that FP32 rounding grows with k / 16 and not with k.
constexpr int kPartialSums = 16;

float WidenOne(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint16_t RoundOne(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float Dot(const uint16_t* w, const float* x, int64_t k) {
  float sums[kPartialSums] = {};
  const int64_t whole = k / kPartialSums * kPartialSums;
  for (int64_t j = 0; j < whole; j += kPartialSums) {
    for (int i = 0; i < kPartialSums; ++i) sums[i] += WidenOne(w[j + i]) * x[j + i];
  }
  for (int64_t j = whole; j < k; ++j) sums[j - whole] += WidenOne(w[j]) * x[j];
  float total = 0;
  for (float sum : sums) total += sum;
  return total;
}

void Prepare(const float* x, int64_t k, float* prepared) noexcept { std::memcpy(prepared, x, k * sizeof(float)); }

void Run(const GemvTask& t) noexcept {
  for (int64_t n = 0; n < t.rows; ++n) {
    for (int64_t i = 0; i < t.m; ++i) {
      const float sum = Dot(t.weights + n * t.k, t.x + i * t.k, t.k);
      t.y[i * t.y_stride + n] = t.bias != nullptr ? sum + t.bias[n] : sum;
    }
  }
}

void Widen(const uint16_t* bf16, int64_t count, float* out) noexcept {
  for (int64_t i = 0; i < count; ++i) out[i] = WidenOne(bf16[i]);
}

void Pack(const uint16_t* weights, int64_t stride, int64_t rows, int64_t k, int64_t block, float* packed) noexcept {
  for (int64_t row = 0; row < rows; ++row) {
    float* to = packed + row / block * block * k + row % block;
    for (int64_t j = 0; j < k; ++j) to[j * block] = WidenOne(weights[row * stride + j]);
  }
}

void Split(const float* x, int64_t count, uint16_t* high, uint16_t* middle, uint16_t* low) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    high[i] = RoundOne(x[i]);
    middle[i] = low[i] = 0;
    if (!std::isfinite(WidenOne(high[i]))) continue;
    const float rest = x[i] - WidenOne(high[i]);
    middle[i] = RoundOne(rest);
    low[i] = RoundOne(rest - WidenOne(middle[i]));
  }
}

}  // namespace

const GemvKernels kGemvScalar = {Prepare, Run, Widen, Pack, Split};

}  // namespace haypile
