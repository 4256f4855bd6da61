#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/json.h"
#include "checkpoint/gguf.h"
#include "command.h"
#include "gguf_geometry.h"
#include "inspect/report.h"
#include "modelstore/model_store.h"
#include "output.h"
#include "version.h"

namespace haypile {
namespace {

bool IsGguf(const std::string& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, 4) == "GGUF" || path.ends_with(".gguf");
}

Result<InspectReport> InspectGgufFile(const std::string& path) {
  HAYPILE_TRY_ASSIGN(const auto file, GgufFile::Open(path));
  HAYPILE_TRY_ASSIGN(ModelGeometry geometry, GeometryFromGguf(*file));
  std::map<std::string, DtypeShare> shares;
  for (const StoredTensor& tensor : file->tensors()) {
    DtypeShare& share = shares[std::string(tensor.type->name)];
    share.dtype = tensor.type->name;
    ++share.tensors;
    share.bytes += tensor.bytes.size();
  }
  std::vector<DtypeShare> dtypes;
  for (auto& [name, share] : shares) dtypes.push_back(std::move(share));
  return InspectGguf(path, std::move(geometry), std::move(dtypes));
}

Status RunInspect(const std::string& checkpoint, bool json) {
  std::string path = checkpoint;
  std::error_code ignored;
  // A path that exists is itself; anything else may be the name of a fetched model.
  if (!std::filesystem::exists(path, ignored)) {
    HAYPILE_TRY_ASSIGN(path, ResolveModel(checkpoint));
  }
  const bool folder = std::filesystem::is_directory(path, ignored);
  Result<InspectReport> report = !folder && IsGguf(path) ? InspectGgufFile(path) : InspectCheckpoint(path);
  HAYPILE_TRY(report);
  if (json) {
    fmt::print("{}\n", DumpJson(ToJson(*report, kVersion)));
  } else {
    fmt::print("{}", InspectText(*report, OutputWidth(), OutputHasColour()));
  }
  return {};
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandBody& chosen) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Are KV scales in a checkpoint, are they sound, and what does each engine do with them");
  auto checkpoint = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command
      ->add_option("CHECKPOINT", *checkpoint,
                   "A Hugging Face folder, a config.json, a GGUF file, or the name of a fetched model")
      ->required();
  command->add_flag("--json", *json, "Print JSON (docs/schemas/haypile.inspect-1.schema.json)");
  command->callback(
      [&chosen, checkpoint, json] { chosen = [checkpoint, json] { return RunInspect(*checkpoint, *json); }; });
}

}  // namespace haypile
