#include <benchmark/benchmark.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/attention/tile_layout.h"
#include "kernels/kv_write/kv_write.h"

namespace haypile {
namespace {

// A chunk of 512 tokens with 3 heads of 64, one thread; the counter is the time of one element of K or V.
void WriteChunk(benchmark::State& state, KvFormat format) {
  constexpr int kTokens = 512, kHeads = 3, kHeadDim = 64;
  PagedKvView kv;
  kv.kv_heads = kHeads;
  kv.head_dim = kHeadDim;
  kv.k_format = kv.v_format = format;
  kv.layout = MakeTileLayout(format, format, kHeads, kHeadDim);
  kv.page_bytes = kv.layout.tile_bytes;
  AlignedBuffer pages = AlignedBuffer::Allocate(static_cast<size_t>(kv.page_bytes) * (kTokens / kTileTokens)).value();
  kv.pages = pages.data();
  std::atomic<bool> special = false;
  kv.holds_special_codes = &special;
  std::vector<int32_t> table(kTokens / kTileTokens);
  std::iota(table.begin(), table.end(), 0);
  std::vector<float> rows(size_t{kTokens} * kHeads * kHeadDim);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : rows) value = normal(random);
  ThreadPool pool(1);
  const KvWriteSequence sequence{table.data(), 0, kTokens, 0};
  for (auto _ : state) WriteKv(kv, {&sequence, 1}, rows.data(), rows.data(), pool);
  state.counters["s/element"] =
      benchmark::Counter(2.0 * static_cast<double>(rows.size()),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

const bool kRegistered = [] {
  for (const KvFormatInfo& info : AllKvFormats()) {
    benchmark::RegisterBenchmark(("write/" + std::string(info.name)).c_str(), WriteChunk, info.format);
  }
  return true;
}();

}  // namespace
}  // namespace haypile
