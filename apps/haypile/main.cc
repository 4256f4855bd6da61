#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "command.h"
#include "kernels/isa/isa.h"
#include "kernels/matmul/onednn_gemm.h"
#include "plan_arguments.h"
#include "version.h"

namespace haypile {
namespace {

// One line on standard error, whatever the message holds.
int PrintError(ErrorCode code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "haypile: {}: {}\n", InfoOf(code).name, message);
  return InfoOf(code).exit_status;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "What a quantized KV cache buys, what it costs, and whether it may ship.\n"
      "Start with: haypile model get smollm2-135m && haypile compare smollm2-135m --quick",
      "haypile");
  app.set_version_flag("--version", std::string("haypile ") + kVersion + (*kCommit ? " " : "") + kCommit);
  app.require_subcommand(1);
  app.footer("Exit statuses: docs/errors.md");
  CommandBody chosen;
  AddCompareCommand(app, chosen);
  AddCalibrateCommand(app, chosen);
  AddDoctorCommand(app, chosen);
  AddGenerateCommand(app, chosen);
  AddFormatsCommand(app, chosen);
  AddInspectCommand(app, chosen);
  AddModelCommand(app, chosen);
  AddPlanCommand(app, chosen);
  AddReportCommand(app, chosen);
  AddBenchCommand(app, chosen);
  try {
    std::vector<std::string> arguments = NormalizedArguments(argc, argv);
    std::reverse(arguments.begin(), arguments.end());  // the parser takes them last first
    app.parse(arguments);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return PrintError(ErrorCode::kInvalidArgument, std::string(error.what()) + "; see haypile --help");
  }
  InstallInterruptHandler();
  RunOnAllOpenMpPlaces();
  if (auto isa = SelectIsa(); !isa.ok()) return PrintError(isa.error().code(), isa.error().message());
  const Status status = chosen();
  return status.ok() ? 0 : PrintError(status.error().code(), status.error().message());
}

}  // namespace
}  // namespace haypile

int main(int argc, char** argv) {
  try {
    return haypile::Main(argc, argv);
  } catch (const std::exception& error) {  // memory exhausted, say: no exception is meant to come this far
    return haypile::PrintError(haypile::ErrorCode::kInternal, error.what());
  }
}
