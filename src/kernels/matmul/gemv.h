#pragma once

#include <cstdint>

#include "kernels/isa/isa.h"

namespace haypile {

// A run of weight rows times a few activation rows, as one worker computes it:
//   y[i * y_stride + n] = sum_j x[i][j] * weights[n][j] + bias[n]     i < m, n < rows, j < k
// Products and sums are FP32; each output's order of summation depends on k and the ISA alone, so that neither m, nor
// the split into tasks, nor the number of threads changes a bit of the result.
struct GemvTask {
  const uint16_t* weights = nullptr;  // [rows][k] BF16
  int64_t rows = 0;
  int64_t k = 0;
  const float* x = nullptr;  // [m][k], each row passed through GemvKernels::prepare
  int64_t m = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  const float* bias = nullptr;  // [rows] or null
  // The rows of weights that this worker most likely reads next, asked for at the end; null: none.
  const uint16_t* next_weights = nullptr;
};

// One instruction set's kernels. `prepare` puts a row of x into the order that `run` of the same set wants it in.
struct GemvKernels {
  void (*prepare)(const float* x, int64_t k, float* prepared) noexcept;
  void (*run)(const GemvTask& task) noexcept;
  void (*widen)(const uint16_t* bf16, int64_t count, float* out) noexcept;  // BF16 to FP32, exact
  // The first k of each row of weights, `stride` apart, to FP32 as packed[row / block][j][row % block]. rows is a
  // multiple of block, block of 8, k of 32.
  void (*pack)(const uint16_t* weights, int64_t stride, int64_t rows, int64_t k, int64_t block, float* packed) noexcept;
  // x as high + middle + low, each what the ones before leave of x, as BF16 rounded to nearest even: all 24 bits of x,
  // where the parts are not subnormal. Where high is NaN or infinite, middle and low are 0.
  void (*split)(const float* x, int64_t count, uint16_t* high, uint16_t* middle, uint16_t* low) noexcept;
};

extern const GemvKernels kGemvScalar;
extern const GemvKernels kGemvAvx2;
extern const GemvKernels kGemvAvx512;
extern const GemvKernels kGemvNeon;

const GemvKernels& GemvKernelsFor(Isa isa);

}  // namespace haypile
