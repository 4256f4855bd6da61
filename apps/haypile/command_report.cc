#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/file.h"
#include "base/json.h"
#include "command.h"
#include "output.h"
#include "report/compare_result.h"
#include "report/markdown.h"
#include "report/terminal.h"

namespace haypile {
namespace {

struct ReportOptions {
  std::string input;
  std::string html_path;
  bool markdown = false;
};

Status RunReport(const ReportOptions& options) {
  if (!options.html_path.empty()) HAYPILE_TRY(CheckWritable(options.html_path));
  HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(options.input, uint64_t{256} << 20));
  auto json = ParseJson(text);
  if (!json.ok()) return std::move(json).error().WithContext("'" + options.input + "'");
  auto result = CompareResultFromJson(*json);
  if (!result.ok()) return std::move(result).error().WithContext("'" + options.input + "'");
  if (!options.html_path.empty()) HAYPILE_TRY(WriteHtmlReport(*result, options.html_path));
  fmt::print("{}",
             options.markdown ? RenderMarkdown(*result) : RenderTerminal(*result, OutputWidth(), OutputHasColour()));
  return {};
}

}  // namespace

void AddReportCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand("report", "Show a result of compare again");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("FILE", options->input, "JSON that compare --json wrote")->required();
  command->add_option("--report", options->html_path, "Write the HTML report to this file");
  command->add_flag("--markdown", options->markdown, "Print Markdown instead of the table");
  command->callback([&chosen, options] { chosen = [options] { return RunReport(*options); }; });
}

}  // namespace haypile
