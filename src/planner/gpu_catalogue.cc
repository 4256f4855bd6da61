#include "planner/gpu_catalogue.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/json.h"
#include "planner/gpu_catalogue_data.h"

namespace haypile {
namespace {

constexpr double kLargestMemoryBytes = 1e14;
constexpr double kLargestBandwidth = 1e15;

// Letter case and separators do not count: "rtx pro 6000", "RTX_PRO_6000".
std::string Key(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    key += (c >= 'A' && c <= 'Z') ? static_cast<char>(c | 0x20) : c;
  }
  return key;
}

bool IsNamed(const GpuSpec& gpu, const std::string& key) {
  return Key(gpu.name) == key ||
         std::any_of(gpu.aliases.begin(), gpu.aliases.end(), [&](const std::string& a) { return Key(a) == key; });
}

// Reads one entry; every failure names the entry and the field.
class EntryReader {
 public:
  EntryReader(const Json& entry, std::string where) : entry_(entry), where_(std::move(where)) {}

  Result<GpuSpec> Read() {
    if (!entry_.is_object()) return Bad("", "expected an object");
    HAYPILE_TRY(CheckFieldNames());
    GpuSpec gpu;
    HAYPILE_TRY_ASSIGN(gpu.name, Text("name", true));
    HAYPILE_TRY_ASSIGN(gpu.vendor, Text("vendor", false));
    HAYPILE_TRY_ASSIGN(gpu.architecture, Text("architecture", false));
    HAYPILE_TRY_ASSIGN(gpu.source, Text("source", false));
    HAYPILE_TRY_ASSIGN(gpu.memory_bytes, Memory());
    HAYPILE_TRY_ASSIGN(const double bandwidth, Number("bandwidth_gb_s", true, kLargestBandwidth / 1e9));
    gpu.bandwidth_bytes_per_second = bandwidth * 1e9;
    HAYPILE_TRY_ASSIGN(const double sm, Number("sm", false, 1000.0));
    gpu.sm = static_cast<int>(sm);
    HAYPILE_TRY_ASSIGN(gpu.fp8, Flag("fp8"));
    HAYPILE_TRY_ASSIGN(gpu.fp4, Flag("fp4"));
    HAYPILE_TRY_ASSIGN(gpu.unified_memory, Flag("unified_memory"));
    HAYPILE_TRY_ASSIGN(gpu.aliases, Aliases());
    if (gpu.vendor.empty()) gpu.vendor = gpu.sm > 0 ? "nvidia" : "unknown";
    return gpu;
  }

 private:
  Error Bad(const std::string& field, const std::string& what) const {
    return Error(ErrorCode::kMalformed, where_ + (field.empty() ? "" : "." + field) + ": " + what);
  }

  Status CheckFieldNames() const {
    static const std::set<std::string> kKnown{"name",      "vendor",         "architecture", "source",
                                              "memory_gb", "memory_bytes",   "sm",           "aliases",
                                              "fp8",       "unified_memory", "fp4",          "bandwidth_gb_s"};
    for (const auto& [name, value] : entry_.items()) {
      if (!kKnown.contains(name)) return Bad(name, "unknown field; see docs/plan.md");
    }
    return {};
  }

  Result<std::string> Text(const char* field, bool needed) const {
    if (!entry_.contains(field)) {
      if (needed) return Bad(field, "is missing; expected a text");
      return std::string();
    }
    const Json& value = entry_[field];
    if (!value.is_string() || (needed && value.get<std::string>().empty())) {
      return Bad(field, "expected a text, found " + DumpJson(value, -1));
    }
    return value.get<std::string>();
  }

  Result<double> Number(const char* field, bool needed, double largest) const {
    if (!entry_.contains(field)) {
      if (needed) return Bad(field, "is missing; expected a number");
      return 0.0;
    }
    const Json& value = entry_[field];
    if (!value.is_number() || !(value.get<double>() > 0.0) || value.get<double>() > largest) {
      return Bad(field, "expected a positive number, found " + DumpJson(value, -1));
    }
    return value.get<double>();
  }

  Result<bool> Flag(const char* field) const {
    if (!entry_.contains(field)) return false;
    if (!entry_[field].is_boolean()) return Bad(field, "expected true or false, found " + DumpJson(entry_[field], -1));
    return entry_[field].get<bool>();
  }

  Result<int64_t> Memory() const {
    if (entry_.contains("memory_gb") == entry_.contains("memory_bytes")) {
      return Bad("memory_gb", "give either memory_gb or memory_bytes");
    }
    if (entry_.contains("memory_bytes")) {
      HAYPILE_TRY_ASSIGN(const double bytes, Number("memory_bytes", true, kLargestMemoryBytes));
      return static_cast<int64_t>(bytes);
    }
    HAYPILE_TRY_ASSIGN(const double gb, Number("memory_gb", true, kLargestMemoryBytes / 1e9));
    return static_cast<int64_t>(std::llround(gb * 1e9));
  }

  Result<std::vector<std::string>> Aliases() const {
    std::vector<std::string> aliases;
    if (!entry_.contains("aliases")) return aliases;
    if (!entry_["aliases"].is_array()) return Bad("aliases", "expected an array of texts");
    for (const Json& alias : entry_["aliases"]) {
      if (!alias.is_string()) return Bad("aliases", "expected an array of texts, found " + DumpJson(alias, -1));
      aliases.push_back(alias.get<std::string>());
    }
    return aliases;
  }

  const Json& entry_;
  std::string where_;
};

}  // namespace

GpuCatalogue::GpuCatalogue() : gpus_(BuiltInGpus()) {}

Status GpuCatalogue::AddJson(std::string_view text, const std::string& file) {
  const std::string where = "'" + file + "'";
  auto json = ParseJson(text);
  if (!json.ok()) return std::move(json).error().WithContext(where);
  if (!json->is_object() || !json->contains("gpus") || !(*json)["gpus"].is_array()) {
    return Error(ErrorCode::kMalformed, where + ": gpus: expected an object with an array \"gpus\"");
  }
  const Json& entries = (*json)["gpus"];
  for (size_t i = 0; i < entries.size(); ++i) {
    HAYPILE_TRY_ASSIGN(GpuSpec gpu, EntryReader(entries[i], where + ": gpus[" + std::to_string(i) + "]").Read());
    const std::string key = Key(gpu.name);
    std::erase_if(gpus_, [&](const GpuSpec& known) { return Key(known.name) == key; });
    gpus_.insert(gpus_.begin(), std::move(gpu));  // before the built-in ones, so that its aliases win
  }
  return {};
}

Result<GpuSpec> GpuCatalogue::Find(std::string_view name) const {
  const std::string key = Key(name);
  for (const GpuSpec& gpu : gpus_) {
    if (IsNamed(gpu, key)) return gpu;
  }
  std::vector<std::string> names;
  for (const GpuSpec& gpu : gpus_) names.push_back(gpu.name);
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  return Error(ErrorCode::kNotFound, "--gpu: unknown device '" + std::string(name) + "'; known: " + list +
                                         "; others by --gpu-file or --gpu-memory");
}

}  // namespace haypile
