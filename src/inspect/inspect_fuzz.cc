#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/json.h"
#include "inspect/rebuilt_index.h"
#include "inspect/report.h"

namespace {

// One folder for all inputs: what files hold is what is tried, not their making.
const std::string& Folder() {
  static const std::string folder = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "haypile_inspect_fuzz_XXXXXX").string();
    return std::string(mkdtemp(pattern.data()));
  }();
  return folder;
}

void Write(const std::string& name, std::string_view content) {
  std::ofstream(Folder() + "/" + name, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

// Up to the next line that is "---", and what follows it.
std::string_view TakePart(std::string_view* text) {
  constexpr std::string_view kMark = "\n---\n";
  const size_t end = text->find(kMark);
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + kMark.size());
  return part;
}

}  // namespace

// Four parts: config.json, hf_quant_config.json, the index, and the header of a safetensors file of 64 bytes of data.
// The whole path from the files to the report: no crash, an error has a message, and the JSON is JSON.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Write("config.json", TakePart(&text));
  const std::string_view hf_quant = TakePart(&text), index = TakePart(&text);
  std::error_code ignored;
  std::filesystem::remove(Folder() + "/hf_quant_config.json", ignored);
  std::filesystem::remove(Folder() + "/model.safetensors.index.json", ignored);
  if (!hf_quant.empty()) Write("hf_quant_config.json", hf_quant);
  if (!index.empty()) Write("model.safetensors.index.json", index);
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(text.size() >> (8 * i));
  Write("model.safetensors", file + std::string(text) + std::string(64, '\x3c'));
  auto report = haypile::InspectCheckpoint(Folder());
  if (!report.ok()) {
    if (report.error().message().empty()) std::abort();
    return 0;
  }
  haypile::AddRanks(1 + static_cast<int>(size % 9), &*report);
  if (haypile::InspectText(*report, 80, false).empty()) std::abort();
  if (!haypile::ParseJson(haypile::DumpJson(haypile::ToJson(*report, "fuzz"))).ok()) std::abort();
  const auto rebuilt = haypile::RebuiltIndex(report->headers, "");
  if (rebuilt.ok() && !haypile::ParseJson(*rebuilt).ok()) std::abort();
  return 0;
}
