#include "checkpoint/checkpoint.h"

#include <filesystem>

#include "checkpoint/tensor_checkpoint.h"

namespace haypile {

Result<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::error_code ec;
  const auto status = std::filesystem::status(path, ec);
  if (std::filesystem::is_directory(status)) {
    if (!std::filesystem::exists(path + "/config.json", ec)) {
      return Error(ErrorCode::kNotFound, "folder '" + path + "' holds no config.json, so it is no Hugging Face model");
    }
    return OpenFolderCheckpoint(path);
  }
  if (path.ends_with(".safetensors")) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + path + "' is one safetensors file; name the folder that holds it " + "and its config.json");
  }
  return OpenGgufCheckpoint(path);
}

}  // namespace haypile
