// The benches of the kernels: attention's and matmul's. With --benchmark_format=json the context tells the machine, the
// commit and the options, so that a file of results says where it came from.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>

#include "base/machine.h"
#include "kernels/attention/attention_bench.h"
#include "kernels/isa/isa.h"

namespace haypile {
namespace {

int Main(int argc, char** argv) {
  const auto fail = [](const Error& error) {
    std::fprintf(stderr, "kernels_bench: %s\n", error.message().c_str());
    return InfoOf(error.code()).exit_status;
  };
  const Result<Isa> isa = SelectIsa();
  if (!isa.ok()) return fail(isa.error());
  const Result<AttentionBenchOptions> options = TakeAttentionFlags(&argc, argv);
  if (!options.ok()) return fail(options.error());
  RegisterAttentionBenches(*options);
  std::string given;
  for (const std::string& flag : options->given) given += (given.empty() ? "" : " ") + flag;
  benchmark::AddCustomContext("cpu", CpuModel());
  benchmark::AddCustomContext("isa", std::string(IsaName(*isa)));
  benchmark::AddCustomContext("commit", HAYPILE_COMMIT);
  benchmark::AddCustomContext("options", given);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return InfoOf(ErrorCode::kInvalidArgument).exit_status;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace haypile

int main(int argc, char** argv) { return haypile::Main(argc, argv); }
