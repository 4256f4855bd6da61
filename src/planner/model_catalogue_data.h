#pragma once

#include <span>
#include <string_view>

namespace haypile {

// One public model: the fields of its config.json that decide its cache and its size, no others.
struct CatalogueEntry {
  std::string_view name;     // lower case
  std::string_view id;       // on the Hugging Face hub
  std::string_view aliases;  // other names and ids, separated by spaces
  std::string_view source;   // where the fields were read
  std::string_view config;
};

std::span<const CatalogueEntry> CatalogueDeepseekToLlama();
std::span<const CatalogueEntry> CatalogueMimoToTinyllama();

}  // namespace haypile
