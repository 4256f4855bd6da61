#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"

namespace haypile {

// Public models known by name: each entry is the KV-relevant fields of its config.json, with its source.
std::vector<std::string> CatalogueModels();  // names, sorted: "qwen3-32b", "llama-3.1-8b", ...
// By name, Hugging Face id or alias, letter case ignored; empty when it is not in the catalogue.
std::optional<std::string> CatalogueConfigJson(std::string_view name);
// Error names the closest known names.
Result<ModelGeometry> CatalogueModel(std::string_view name);

}  // namespace haypile
