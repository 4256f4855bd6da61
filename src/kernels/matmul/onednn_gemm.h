#pragma once

#include <cstdint>
#include <memory>

namespace haypile {

// The one door to oneDNN. All products run on the calling thread alone, whatever OpenMP would do: the thread pool of
// this program splits the work, and OpenMP's own threads would only spin against it.

// Whether this build has the library: the CMake option HAYPILE_ONEDNN. Without it all products are refused
// (onednn_absent.cc).
bool HasOnednn();

// Where OMP_PROC_BIND is set, OpenMP has bound the main thread to one place before main began, and every thread made
// since would share that core with it. Lets the calling thread, and those it makes afterwards, run on all of OpenMP's
// places instead. Nothing happens where the variable is not set.
void RunOnAllOpenMpPlaces();

// y[m][n] = x[m][k] * w[n][k]^T in FP32; leading dimensions in elements. False when the library refuses.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  auto operator<=>(const GemmShape&) const = default;
};
bool SgemmOnThisThread(const GemmShape& shape, const float* x, int64_t x_stride, const float* w, int64_t w_stride,
                       float* y, int64_t y_stride);

// Whether products are put into y or added to it.
enum class GemmOutput { kPut, kAdd };

// y[m][n] = x[m][k] * w[n][k]^T in FP32, all densely packed, with weights in the order in which the library's kernels
// read them: packed[n / block][k][n % block]. To the library this is a convolution whose window is one point: its
// kernels for these pack nothing themselves, which SGEMM does at every call, and come nearer to the processor's limit.
// Each output is one sum in the order of k, whatever the shape: few k at a time keep roundings small. Compiled products
// are kept per shape. One object per worker: not thread-safe.
class PackedGemm {
 public:
  PackedGemm();
  ~PackedGemm();
  PackedGemm(PackedGemm&&) noexcept;

  // The block of weights for products of this shape, a multiple of 8, of which n and k are multiples; 0: the library
  // has no such kernel here, and Run must not be called.
  int64_t Block(const GemmShape& shape, GemmOutput output);
  // False when the library fails, as for want of memory; y then holds anything.
  bool Run(const GemmShape& shape, const float* x, const float* packed, GemmOutput output, float* y);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// y[m][n] = x[m][k] * w[n][k]^T with BF16 inputs and FP32 sums and output, all densely packed. Compiled products are
// kept per shape. One object per worker: not thread-safe.
class Bf16Gemm {
 public:
  Bf16Gemm();
  ~Bf16Gemm();
  Bf16Gemm(Bf16Gemm&&) noexcept;

  // False when the library cannot do it (then nothing was written).
  bool Run(const GemmShape& shape, const uint16_t* x, const uint16_t* w, GemmOutput output, float* y);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace haypile
