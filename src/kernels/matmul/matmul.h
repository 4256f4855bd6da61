#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/matmul/onednn_gemm.h"

namespace haypile {

// Weights as the model holds them: BF16, row-major [rows][columns] = [out][in].
struct Bf16Matrix {
  const uint16_t* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
};

// One product of several that share their input.
struct MatmulOutput {
  Bf16Matrix weights;
  const float* bias = nullptr;  // [rows] or null
  float* y = nullptr;           // [m][y_stride], the first weights.rows of each row are written
  int64_t y_stride = 0;
};

// y[m][N] = x[m][K] W[N][K]^T + bias on the thread pool, with FP32 activations and sums. Few rows go through GEMV
// kernels that read the weights at the speed of memory; many rows through oneDNN (its convolutions, which take packed
// weights, or its SGEMM), or in a build without it through the GEMV kernels, block by block. Where BF16 products are
// much faster than FP32 ones (AMX), each activation is the sum of three BF16 numbers, which hold all its bits, and
// multiplied as such. The result does not depend on the number of threads.
class Matmul {
 public:
  // How oneDNN multiplies many rows. kSplitBf16 falls back to kFp32 where the library refuses BF16.
  enum class Products { kFp32, kSplitBf16 };

  // The pool must outlive the object.
  explicit Matmul(ThreadPool& pool, Products products = FastestProducts());

  // Makes room for products of up to `m` rows and `k` columns, so that Run allocates nothing. kOutOfBudget.
  Status Reserve(int64_t m, int64_t k);

  // All outputs' weights must have the same number of columns K; x is densely packed [m][K]. Room for (m, K) must
  // have been reserved.
  void Run(const float* x, int64_t m, std::span<const MatmulOutput> outputs);

 private:
  struct Tile;
  static Products FastestProducts();
  static void CopyOut(const Tile& tile, const float* products);
  void SplitRows(const float* x, int64_t m, int64_t k);
  const float* SliceRows(const float* x, int64_t m, int64_t k);
  bool MultiplySplit(const Tile& tile, int worker);
  bool MultiplyPacked(const Tile& task, int worker);
  void MultiplyPlain(const Tile& task, int worker);
  void MultiplyTask(const Tile& task, int worker);
  static void AddBias(const Tile& tile);
  template <typename Multiply>
  static bool ForTiles(const Tile& task, const Multiply& multiply);
  void RunGemv(const float* x, int64_t m, std::span<const MatmulOutput> outputs);
  void RunGemm(const float* x, int64_t m, std::span<const MatmulOutput> outputs);

  ThreadPool& pool_;
  const Products products_;
  AlignedBuffer x_;                    // all rows of x as the kernels want them
  std::vector<AlignedBuffer> panels_;  // per worker: a tile of y, and a panel of W in FP32
  std::vector<PackedGemm> packed_;     // per worker
  std::vector<Bf16Gemm> bf16_;         // per worker
};

}  // namespace haypile
