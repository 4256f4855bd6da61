#include <benchmark/benchmark.h>

#include <vector>

#include "evaluate/row_divergence.h"
#include "evaluate/seeded_random.h"

namespace haypile {
namespace {

void CompareRowPair(benchmark::State& state) {
  SeededRandom random(1);
  std::vector<float> a(static_cast<size_t>(state.range(0))), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(random.Below(20000)) * 1e-3f;
    b[i] = a[i] + static_cast<float>(random.Below(100)) * 1e-3f;
  }
  for (auto _ : state) benchmark::DoNotOptimize(CompareRows(a, b, 0));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(CompareRowPair)->Arg(49152)->Arg(262144)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace haypile
