#pragma once

#include <string>

#include "base/result.h"
#include "planner/model_geometry.h"

namespace haypile {

// Whether a file is GGUF, by its first bytes or its name; false when there is no such file.
bool IsGguf(const std::string& path);

// The geometry of a model as a user names it: a Hugging Face folder (weights measured from its safetensors headers
// where they are there), a config.json, a GGUF file, "-" for a config.json on standard input, or a name or Hugging Face
// id of the built-in catalogue. kNotFound when it is none of these.
Result<ModelGeometry> LoadGeometry(const std::string& model);

}  // namespace haypile
