#include "planner/model_catalogue.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "planner/model_catalogue_data.h"
#include "planner/model_config.h"

namespace haypile {
namespace {

template <typename Visitor>
void ForEachEntry(Visitor visit) {
  for (const CatalogueEntry& entry : CatalogueDeepseekToLlama()) visit(entry);
  for (const CatalogueEntry& entry : CatalogueMimoToTinyllama()) visit(entry);
}

// `name` is in lower case.
bool Answers(const CatalogueEntry& entry, const std::string& name) {
  if (entry.name == name || LowerCase(entry.id) == name) return true;
  const std::string aliases = " " + LowerCase(entry.aliases) + " ";
  return name.find(' ') == std::string::npos && !name.empty() && aliases.find(" " + name + " ") != std::string::npos;
}

const CatalogueEntry* FindEntry(std::string_view name) {
  const std::string lower = LowerCase(name);
  const CatalogueEntry* found = nullptr;
  ForEachEntry([&](const CatalogueEntry& entry) {
    if (found == nullptr && Answers(entry, lower)) found = &entry;
  });
  return found;
}

// Edits that turn one name into the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string ClosestNames(std::string_view name) {
  constexpr size_t kShown = 3;
  constexpr size_t kLongest = 200;
  std::string wanted = LowerCase(name.substr(0, kLongest));
  if (const size_t slash = wanted.rfind('/'); slash != std::string::npos) wanted.erase(0, slash + 1);
  std::vector<std::pair<size_t, std::string>> ranked;
  ForEachEntry([&](const CatalogueEntry& entry) {
    ranked.emplace_back(EditDistance(wanted, entry.name), std::string(entry.name));
  });
  std::sort(ranked.begin(), ranked.end());
  std::string names;
  for (size_t i = 0; i < std::min(kShown, ranked.size()); ++i) names += (i == 0 ? "" : ", ") + ranked[i].second;
  return names;
}

}  // namespace

std::vector<std::string> CatalogueModels() {
  std::vector<std::string> names;
  ForEachEntry([&names](const CatalogueEntry& entry) { names.emplace_back(entry.name); });
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> CatalogueConfigJson(std::string_view name) {
  const CatalogueEntry* entry = FindEntry(name);
  if (entry == nullptr) return std::nullopt;
  return std::string(entry->config);
}

Result<ModelGeometry> CatalogueModel(std::string_view name) {
  const CatalogueEntry* entry = FindEntry(name);
  if (entry == nullptr) {
    return Error(ErrorCode::kNotFound,
                 "model '" + std::string(name) + "' is not in the catalogue; closest: " + ClosestNames(name));
  }
  return ParseModelConfig(entry->config, std::string(name));
}

}  // namespace haypile
