#include "kernels/attention/attention_bench.h"

#include <benchmark/benchmark.h>

#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "base/machine.h"
#include "kernels/attention/attention_case.h"

namespace haypile {
namespace {

struct Machine {
  explicit Machine(int threads) : pool(threads), bandwidth(MeasureReadBandwidth(pool)) {}
  ThreadPool pool;
  double bandwidth;  // GB/s, of the same threads in the same run
};

Machine& SharedMachine(int threads) {
  static Machine machine(threads);
  return machine;
}

// The bench library calls a bench several times until it is long enough: only a new name makes a new problem.
AttentionProblem& SharedProblem(const std::string& name, const AttentionCase& shape) {
  static std::string made;
  static std::unique_ptr<AttentionProblem> problem;
  if (made != name) {
    problem.reset();
    problem = std::make_unique<AttentionProblem>(shape);
    made = name;
  }
  return *problem;
}

// Counters: quantized bytes and elements of K and V read per second, and the share of the read bandwidth; of many rows
// the floating-point operations, 4 head_dim for each query head and each key that a query sees.
void Decode(benchmark::State& state, const std::string& name, const AttentionCase& shape, int threads) {
  Machine& machine = SharedMachine(threads);
  AttentionProblem& problem = SharedProblem(name, shape);
  std::vector<float> output(problem.OutputSize());
  const AttentionArgs args = problem.Args(output.data());
  for (auto _ : state) PagedAttention(args, machine.pool);
  const double tokens = static_cast<double>(shape.context.size()) * (shape.context[0] + shape.queries[0]);
  const double bytes = static_cast<double>(args.kv.layout.tile_bytes) / kTileTokens * tokens;
  const double elements = 2.0 * shape.kv_heads * shape.head_dim * tokens;
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, rate);
  state.counters["Gelements/s"] = benchmark::Counter(elements / 1e9, rate);
  state.counters["share"] = benchmark::Counter(bytes / 1e9 / machine.bandwidth, rate);
  double seen = 0;
  for (int query = 1; query <= shape.queries[0]; ++query) seen += shape.context[0] + query;
  const double operations = 4.0 * shape.head_dim * shape.kv_heads * shape.group * seen;
  state.counters["GFLOP/s"] = benchmark::Counter(operations * static_cast<double>(shape.context.size()) / 1e9, rate);
  state.counters["read_GB/s"] = benchmark::Counter(machine.bandwidth);
}

Error BadFlag(std::string_view flag, const std::string& expected) {
  return Error(ErrorCode::kInvalidArgument, "'" + std::string(flag) + "': expected " + expected);
}

Result<int> NumberIn(std::string_view flag, std::string_view text, int least, int most) {
  int value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || value < least || value > most) {
    return BadFlag(flag, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

Status TakeHeadDims(std::string_view flag, std::string_view list, AttentionBenchOptions* options) {
  options->head_dims.clear();
  while (true) {
    const size_t comma = list.find(',');
    HAYPILE_TRY_ASSIGN(const int head_dim, NumberIn(flag, list.substr(0, comma), 32, 512));
    if (head_dim % 32 != 0) return BadFlag(flag, "multiples of 32, the largest block of a format");
    options->head_dims.push_back(head_dim);
    if (comma == std::string_view::npos) return {};
    list.remove_prefix(comma + 1);
  }
}

// Whether `flag` is one of these, which is then set.
Result<bool> TakeFlag(std::string_view flag, AttentionBenchOptions* options) {
  struct Row {
    std::string_view name;
    int* value;
    int least, most;
  };
  const Row rows[] = {{"--kv_heads=", &options->kv_heads, 1, 1024},  {"--group=", &options->group, 1, 64},
                      {"--context=", &options->context, 0, 1 << 24}, {"--sequences=", &options->sequences, 1, 4096},
                      {"--queries=", &options->queries, 1, 1 << 16}, {"--threads=", &options->threads, 0, 1024}};
  for (const Row& row : rows) {
    if (!flag.starts_with(row.name)) continue;
    HAYPILE_TRY_ASSIGN(*row.value, NumberIn(flag, flag.substr(row.name.size()), row.least, row.most));
    return true;
  }
  if (constexpr std::string_view kName = "--head_dim="; flag.starts_with(kName)) {
    HAYPILE_TRY(TakeHeadDims(flag, flag.substr(kName.size()), options));
    return true;
  }
  if (!flag.starts_with("--pages=")) return false;
  if (flag != "--pages=ordered" && flag != "--pages=shuffled") return BadFlag(flag, "ordered or shuffled");
  options->shuffled_pages = flag == "--pages=shuffled";
  return true;
}

void Register(const AttentionBenchOptions& options, KvFormat k, KvFormat v, int head_dim) {
  AttentionCase shape;
  shape.k_format = k;
  shape.v_format = v;
  shape.head_dim = head_dim;
  shape.kv_heads = options.kv_heads;
  shape.group = options.group;
  shape.context.assign(options.sequences, options.context);
  shape.queries.assign(options.sequences, options.queries);
  shape.shuffled_pages = options.shuffled_pages;
  shape.keeps_reference = false;
  std::string name = "decode/" + std::string(InfoOf(k).name);
  if (v != k) name += "+" + std::string(InfoOf(v).name);
  name += "/D" + std::to_string(head_dim) + "/heads" + std::to_string(options.kv_heads) + "/group" +
          std::to_string(options.group) + "/" + std::to_string(options.context);
  if (options.sequences > 1) name += "x" + std::to_string(options.sequences);
  if (options.queries > 1) name += "/rows" + std::to_string(options.queries);
  benchmark::RegisterBenchmark(name.c_str(), Decode, name, shape, options.threads)->UseRealTime();
}

}  // namespace

Result<AttentionBenchOptions> TakeAttentionFlags(int* argc, char** argv) {
  AttentionBenchOptions options;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    HAYPILE_TRY_ASSIGN(const bool taken, TakeFlag(argv[i], &options));
    if (taken) {
      options.given.push_back(argv[i]);
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  return options;
}

void RegisterAttentionBenches(const AttentionBenchOptions& options) {
  for (const int head_dim : options.head_dims) {
    for (const KvFormatInfo& info : AllKvFormats()) Register(options, info.format, info.format, head_dim);
    Register(options, KvFormat::kQ8_0, KvFormat::kNvfp4FourOverSix, head_dim);
  }
}

}  // namespace haypile
