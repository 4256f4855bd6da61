#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "command.h"
#include "formats/error_metrics.h"
#include "formats/kv_format.h"
#include "output.h"
#include "report/formats_result.h"
#include "spec/kv_geometry.h"
#include "version.h"

namespace haypile {
namespace {

FormatsResult MeasureFormats() {
  const GaussianData data;
  FormatsResult result;
  result.tool_version = kVersion;
  result.sqnr_samples = int64_t{data.head_dim} * data.tokens;
  for (const KvFormatInfo& info : AllKvFormats()) {
    FormatRow row;
    row.name = info.name;
    if (info.format == KvFormat::kFp8E4m3) row.aliases = {"fp8"};
    row.element_bits = info.element_bits;
    row.bits_per_element = 8.0 * static_cast<double>(RowBytes(info.format, data.head_dim)) / data.head_dim;
    row.scale_layout = info.summary;
    row.largest_element = info.largest_element;
    row.sqnr_db = MeasureGaussianSqnrDb(info.format, data);
    row.docs = "docs/formats/" + std::string(info.name) + ".md";
    result.formats.push_back(std::move(row));
  }
  return result;
}

}  // namespace

void AddFormatsCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand("formats", "List the KV-cache formats, with their error measured now");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON (haypile.formats/1)");
  command->callback([&chosen, json] {
    chosen = [json]() -> Status {
      const FormatsResult result = MeasureFormats();
      if (*json) {
        fmt::print("{}\n", DumpJson(ToJson(result)));
      } else {
        fmt::print("{}", FormatsTable(result).Render(OutputWidth(), OutputHasColour()));
        fmt::print("bits/element at head dim 128; SQNR on {} samples of N(0,1)\n", *result.sqnr_samples);
      }
      return {};
    };
  });
}

}  // namespace haypile
