#include <benchmark/benchmark.h>

#include <vector>

#include "base/thread_pool.h"
#include "kernels/matmul/matmul.h"

namespace haypile {
namespace {

// Weights of 256 MiB so that no cache holds them; a layer's shapes otherwise.
void BM_Matmul(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  ThreadPool pool(static_cast<int>(state.range(3)));
  const int64_t copies = m < 16 ? std::max<int64_t>(1, (int64_t{128} << 20) / (n * k)) : 1;
  auto buffer = AlignedBuffer::Allocate(copies * n * k * 2);
  uint16_t* weights = buffer.value().as<uint16_t>();
  for (int64_t i = 0; i < copies * n * k; ++i) weights[i] = static_cast<uint16_t>(0x3c00 + i % 256);
  std::vector<float> x(m * k, 0.5f), y(m * n);
  Matmul matmul(pool);
  if (!matmul.Reserve(m, k).ok()) return state.SkipWithError("no memory");
  int64_t copy = 0;
  for (auto _ : state) {
    const MatmulOutput output{.weights = {weights + copy * n * k, n, k}, .y = y.data(), .y_stride = n};
    matmul.Run(x.data(), m, {&output, 1});
    copy = (copy + 1) % copies;
  }
  state.counters["GB/s"] = benchmark::Counter(2e-9 * n * k * state.iterations(), benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * m * n * k * state.iterations(), benchmark::Counter::kIsRate);
}
// Rows; output and input size; threads. The last shapes are output matrices.
BENCHMARK(BM_Matmul)
    ->ArgNames({"m", "n", "k", "threads"})
    ->ArgsProduct({{1, 4, 8, 16, 32, 128, 512}, {1536}, {576}, {1, 2}})
    ->ArgsProduct({{1, 8, 512}, {576}, {1536}, {2}})
    ->ArgsProduct({{1, 4, 8}, {49152}, {576}, {2}})
    ->UseRealTime();

}  // namespace
}  // namespace haypile
