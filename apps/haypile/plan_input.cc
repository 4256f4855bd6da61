#include "plan_input.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "checkpoint/gguf.h"
#include "checkpoint/safetensors.h"
#include "gguf_geometry.h"
#include "planner/model_catalogue.h"
#include "planner/model_config.h"

namespace haypile {
namespace {

constexpr uint64_t kLargestConfigBytes = 16 << 20;

Result<std::string> ReadStandardInput() {
  std::string text;
  char buffer[65536];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    text.append(buffer, got);
    if (text.size() > kLargestConfigBytes) {
      return Error(ErrorCode::kMalformed, "standard input: longer than any config.json (16 MiB)");
    }
  }
  if (text.empty()) return Error(ErrorCode::kMalformed, "standard input: empty; expected a config.json");
  return text;
}

// hf_quant_config.json beside a config.json; empty when there is none.
Result<std::string> QuantConfigBeside(const std::filesystem::path& config) {
  const std::filesystem::path path = config.parent_path() / "hf_quant_config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::string();
  return ReadFile(path.string(), kLargestConfigBytes);
}

Result<ModelGeometry> FromConfigFile(const std::string& path, const std::string& name) {
  HAYPILE_TRY_ASSIGN(const std::string config, ReadFile(path, kLargestConfigBytes));
  HAYPILE_TRY_ASSIGN(const std::string quant_config, QuantConfigBeside(path));
  return ParseModelConfig(config, name, quant_config);
}

Result<ModelGeometry> FromFolder(const std::string& folder) {
  const std::string config = folder + "/config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config, ignored)) {
    return Error(ErrorCode::kNotFound, "'" + folder + "': holds no config.json");
  }
  HAYPILE_TRY_ASSIGN(ModelGeometry model, FromConfigFile(config, folder));
  const auto tensors = SafetensorsFolder::Open(folder);
  if (!tensors.ok()) {
    // A folder with a config alone is planned from its parameters; weights that are broken are an error.
    const ErrorCode code = tensors.error().code();
    if (code == ErrorCode::kNotFound || code == ErrorCode::kUnsupported) return model;
    return Error(code, tensors.error().message());
  }
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors->tensors()) bytes += static_cast<int64_t>(tensor.bytes.size());
  model.weight_bytes = bytes;
  return model;
}

}  // namespace

bool IsGguf(const std::string& path) {
  char magic[4] = {};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, 4) == "GGUF" || path.ends_with(".gguf");
}

Result<ModelGeometry> LoadGeometry(const std::string& model) {
  if (model == "-") {
    HAYPILE_TRY_ASSIGN(const std::string config, ReadStandardInput());
    return ParseModelConfig(config, "standard input");
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(model, ignored)) return FromFolder(model);
  if (std::filesystem::exists(model, ignored)) {
    if (!IsGguf(model)) return FromConfigFile(model, model);
    HAYPILE_TRY_ASSIGN(const auto file, GgufFile::Open(model));
    return GeometryFromGguf(*file);
  }
  if (model.ends_with(".json") || model.ends_with(".gguf")) {
    return Error(ErrorCode::kNotFound, "'" + model + "': no such file");
  }
  return CatalogueModel(model);
}

}  // namespace haypile
