#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "formats/row_codec.h"

namespace haypile {
namespace {

constexpr int kHeadDim = 128;

// Items are elements, so items_per_second is elements per second.
void BM_EncodeRow(benchmark::State& state) {
  const KvFormat format = static_cast<KvFormat>(state.range(0));
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kHeadDim);
  for (float& value : values) value = normal(generator);
  std::vector<uint16_t> codes(kHeadDim);
  std::vector<uint32_t> scales(kHeadDim);
  for (auto _ : state) {
    EncodeRow(format, values, 0.01f, {codes, scales});
    benchmark::DoNotOptimize(codes.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kHeadDim);
  state.SetLabel(std::string(InfoOf(format).name));
}
BENCHMARK(BM_EncodeRow)->DenseRange(0, kKvFormatCount - 1);

}  // namespace
}  // namespace haypile
