#include <benchmark/benchmark.h>

#include <string>

#include "base/machine.h"
#include "kernels/attention/attention_case.h"

namespace haypile {
namespace {

// Decode attention of one long sequence. Counters: quantized bytes per second, and their share of the read bandwidth
// measured in the same run.
void BM_Decode(benchmark::State& state, KvFormat k, KvFormat v, int head_dim, int group, int context) {
  static ThreadPool pool(0);
  static const double bandwidth = MeasureReadBandwidth(pool);
  AttentionCase shape;
  shape.k_format = k;
  shape.v_format = v;
  shape.head_dim = head_dim;
  shape.kv_heads = 8;
  shape.group = group;
  shape.context = {context};
  shape.queries = {1};
  AttentionProblem problem(shape);
  std::vector<float> output(problem.OutputSize());
  const AttentionArgs args = problem.Args(output.data());
  for (auto _ : state) PagedAttention(args, pool);
  const double bytes = static_cast<double>(args.kv.layout.tile_bytes) / kTileTokens * (context + 1);
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["share"] = benchmark::Counter(bytes / 1e9 / bandwidth, benchmark::Counter::kIsIterationInvariantRate);
}

// At program start, since the list comes from the table of formats.
const bool kRegistered = [] {
  for (const auto& info : AllKvFormats()) {
    for (const int head_dim : {64, 128}) {
      const std::string name = "decode/" + std::string(info.name) + "/D" + std::to_string(head_dim) + "/group3/16k";
      benchmark::RegisterBenchmark(name.c_str(), BM_Decode, info.format, info.format, head_dim, 3, 16384)
          ->UseRealTime();
    }
  }
  benchmark::RegisterBenchmark("decode/q8_0+nvfp4_4over6/D64/group3/16k", BM_Decode, KvFormat::kQ8_0,
                               KvFormat::kNvfp4FourOverSix, 64, 3, 16384)
      ->UseRealTime();
  return true;
}();

}  // namespace
}  // namespace haypile
