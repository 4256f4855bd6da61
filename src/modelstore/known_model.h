#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace haypile {

// A wheel of the Python package index and a file inside it.
struct WheelMember {
  std::string package;
  std::string version;
  std::string member;  // path inside the wheel
};

// A licence file that is kept beside the model as <name>.<kept_suffix>.
struct LicenseFile {
  WheelMember source;
  std::string kept_suffix;  // e.g. "LICENSE.txt"
  bool is_html = false;     // kept as it is, and as readable text with ".txt" after the suffix
};

// A model that `haypile model get NAME` can fetch: its GGUF is the members of `parts`, one after the other.
struct KnownModel {
  std::string name;
  std::string description;
  std::string license;       // SPDX identifier or the terms' name
  std::string license_page;  // where to read it
  bool is_chat_model = false;
  uint64_t size_bytes = 0;
  std::string sha256;
  std::vector<WheelMember> parts;
  // Shown before the first download when not empty.
  std::vector<LicenseFile> license_files;
};

std::span<const KnownModel> KnownModels();
// Null for an unknown name.
const KnownModel* FindKnownModel(std::string_view name);
// "smollm2-135m, gemma3-270m" for messages.
std::string KnownModelNames();

}  // namespace haypile
