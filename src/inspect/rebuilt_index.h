#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/header_checkpoint.h"

namespace haypile {

// Whether model.safetensors.index.json is missing although there are several files, or does not say where every tensor
// is.
bool IndexNeedsRebuilding(const CheckpointHeaders& headers);

// The text of a model.safetensors.index.json that names the file in which each tensor lies that is in force. What
// `old_index` (empty: there is none) says under "metadata" is kept, but for total_size. Files that were not read
// (consolidated*) are not in it. kInvalidArgument when there is no safetensors file.
Result<std::string> RebuiltIndex(const CheckpointHeaders& headers, std::string_view old_index);

// Writes it atomically to `path`, or, when that is empty, into the checkpoint's folder; returns the path.
Result<std::string> WriteRebuiltIndex(const CheckpointHeaders& headers, const std::string& path);

}  // namespace haypile
