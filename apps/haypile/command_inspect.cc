#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/json.h"
#include "checkpoint/gguf.h"
#include "command.h"
#include "gguf_geometry.h"
#include "inspect/rebuilt_index.h"
#include "inspect/report.h"
#include "modelstore/model_store.h"
#include "output.h"
#include "plan_input.h"
#include "version.h"

namespace haypile {
namespace {

Result<InspectReport> InspectGgufFile(const std::string& path) {
  HAYPILE_TRY_ASSIGN(const auto file, GgufFile::Open(path));
  Result<ModelGeometry> geometry = GeometryFromGguf(*file);
  if (!geometry.ok() && geometry.error().code() != ErrorCode::kUnsupported) return std::move(geometry).error();
  std::error_code ignored;
  uint64_t header_bytes = std::filesystem::file_size(path, ignored);
  std::map<std::string, DtypeShare> shares;
  for (const StoredTensor& tensor : file->tensors()) {
    DtypeShare& share = shares[std::string(tensor.type->name)];
    share.dtype = tensor.type->name;
    ++share.tensors;
    share.bytes += tensor.bytes.size();
    header_bytes = std::min(header_bytes, tensor.file_offset);
  }
  std::vector<DtypeShare> dtypes;
  for (auto& [name, share] : shares) dtypes.push_back(std::move(share));
  return InspectGguf(path, std::move(geometry), std::move(dtypes), header_bytes);
}

struct InspectFlags {
  std::string checkpoint;
  bool write_index = false;
  std::string index_file;
  int tensor_parallel = 0;
  bool json = false;
};

// Writes the index where it is wrong or missing; where it is right, only into a file that the user names.
Status WriteIndex(const InspectFlags& flags, InspectReport* report) {
  if (report->headers.files.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "--write-index: '" + report->name + "' holds no safetensors files; name a folder that does");
  }
  if (flags.index_file.empty() && !IndexNeedsRebuilding(report->headers)) return {};
  HAYPILE_TRY_ASSIGN(report->written_index, WriteRebuiltIndex(report->headers, flags.index_file));
  return {};
}

Status RunInspect(const InspectFlags& flags) {
  std::string path = flags.checkpoint;
  std::error_code ignored;
  // A path that exists is itself; anything else may be the name of a fetched model.
  if (!std::filesystem::exists(path, ignored)) {
    HAYPILE_TRY_ASSIGN(path, ResolveModel(flags.checkpoint));
  }
  const bool folder = std::filesystem::is_directory(path, ignored);
  Result<InspectReport> report = !folder && IsGguf(path) ? InspectGgufFile(path) : InspectCheckpoint(path);
  if (!report.ok()) return std::move(report).error();
  if (flags.tensor_parallel > 0) AddRanks(flags.tensor_parallel, &*report);
  if (flags.write_index || !flags.index_file.empty()) HAYPILE_TRY(WriteIndex(flags, &*report));
  if (flags.json) {
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
  auto flags = std::make_shared<InspectFlags>();
  command
      ->add_option("CHECKPOINT", flags->checkpoint,
                   "A Hugging Face folder, a config.json, a GGUF file, or the name of a fetched model")
      ->required();
  command
      ->add_option("--tensor-parallel-size,--tp,--tp-size", flags->tensor_parallel,
                   "Show what each of N ranks gets of KV heads and of scales per head")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--write-index", flags->write_index,
                    "Rebuild a stale or missing model.safetensors.index.json from the headers");
  command->add_option("--index-file", flags->index_file,
                      "Write the rebuilt index to this file and not into the folder (implies --write-index)");
  command->add_flag("--json", flags->json, "Print JSON (docs/schemas/haypile.inspect-1.schema.json)");
  command->callback([&chosen, flags] { chosen = [flags] { return RunInspect(*flags); }; });
}

}  // namespace haypile
