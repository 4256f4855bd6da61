#include "checkpoint/header_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "checkpoint/safetensors.h"

namespace haypile {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";

using Index = std::unordered_map<std::string, std::string>;

Result<std::vector<std::string>> SafetensorsIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors") && !name.starts_with('.')) names.push_back(std::move(name));
  }
  if (ec) return Error(ErrorCode::kIo, "'" + folder + "': cannot be listed: " + ec.message());
  std::sort(names.begin(), names.end());
  return names;
}

// Collects headers and then settles which copy of a tensor counts.
class HeaderCollector {
 public:
  HeaderCollector(std::string folder, ReadCount* count) : count_(count) { headers_.folder = std::move(folder); }

  Status ReadIndex() {
    const std::string path = headers_.folder + "/" + std::string(kIndexName);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return {};
    HAYPILE_TRY_ASSIGN(const std::string text, ReadSmallFile(path, kLongestSafetensorsIndex, count_));
    HAYPILE_TRY_ASSIGN(index_, ParseSafetensorsIndex(path, text));
    headers_.has_index = true;
    headers_.indexed_tensors = index_.size();
    std::unordered_set<std::string> files;
    for (const auto& [tensor, file] : index_) {
      HAYPILE_TRY(CheckTensorName("'" + path + "'", tensor));
      files.insert(file);
    }
    headers_.indexed_files.assign(files.begin(), files.end());
    std::sort(headers_.indexed_files.begin(), headers_.indexed_files.end());
    return {};
  }

  Status ReadFiles(const std::vector<std::string>& on_disk) {
    const std::set<std::string> named(headers_.indexed_files.begin(), headers_.indexed_files.end());
    for (const std::string& name : headers_.indexed_files) {
      if (!std::binary_search(on_disk.begin(), on_disk.end(), name)) headers_.missing_files.push_back(name);
    }
    for (const std::string& name : on_disk) {
      const bool indexed = named.contains(name);
      if (!indexed && name.starts_with("consolidated") && on_disk.size() > 1) {
        headers_.unread_files.push_back(name);
        continue;
      }
      if (headers_.has_index && !indexed) headers_.unindexed_files.push_back(name);
      Status read = ReadHeader(name);
      if (read.ok()) continue;
      if (!headers_.has_index || indexed) return read;
      headers_.unreadable_files[name] = read.error().message();
    }
    return {};
  }

  Status Settle() {
    std::vector<size_t> order(found_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      const int names = found_[a].name.compare(found_[b].name);
      return names != 0 ? names < 0 : a < b;
    });
    headers_.tensors.reserve(found_.size());
    for (size_t i = 0, end = 0; i < order.size(); i = end) {
      while (end < order.size() && found_[order[end]].name == found_[order[i]].name) ++end;
      HAYPILE_TRY_ASSIGN(const size_t chosen, Choose({order.data() + i, end - i}));
      headers_.tensors.push_back(std::move(found_[chosen]));
    }
    return CheckIndexedAreThere();
  }

  CheckpointHeaders Take() && { return std::move(headers_); }

 private:
  Status ReadHeader(const std::string& name) {
    const std::string path = headers_.folder + "/" + name;
    std::error_code ignored;
    if (std::filesystem::is_symlink(path, ignored) && !std::filesystem::exists(path, ignored)) {
      return Error(ErrorCode::kNotFound, "'" + path +
                                             "': a link to a file that is not there (a download that was not " +
                                             "finished?); fetch the checkpoint anew");
    }
    HAYPILE_TRY_ASSIGN(const HeaderFile file, HeaderFile::Open(path, count_));
    HAYPILE_TRY_ASSIGN(SafetensorsHeader header, ReadSafetensorsHeader(file));
    if (headers_.files.empty()) headers_.metadata = header.metadata;
    for (HeaderTensor& tensor : header.tensors) {
      tensor.file = headers_.files.size();
      found_.push_back(std::move(tensor));
    }
    headers_.files.push_back(name);
    return {};
  }

  const std::string& FileOf(const HeaderTensor& tensor) const { return headers_.files[tensor.file]; }

  // Which of a tensor's copies (positions in found_) counts: the one in the file that the index names, else the only
  // one.
  Result<size_t> Choose(std::span<const size_t> copies) {
    const std::string& name = found_[copies[0]].name;
    const auto entry = index_.find(name);
    if (entry == index_.end() && headers_.has_index) headers_.unindexed_tensors.push_back(name);
    if (entry != index_.end()) {
      ++indexed_that_are_there_;
      for (const size_t copy : copies) {
        if (FileOf(found_[copy]) != entry->second) continue;
        RecordSuperseded(copies, copy);
        return copy;
      }
      ++headers_.misplaced_tensors;
      headers_.stale_index = true;
    }
    if (copies.size() == 1) return copies[0];
    return Error(ErrorCode::kMalformed, "'" + headers_.folder + "': tensor '" + name + "' is in '" +
                                            FileOf(found_[copies[0]]) + "' and in '" + FileOf(found_[copies[1]]) +
                                            "', and " +
                                            (headers_.has_index ? "the index names neither of them for it"
                                                                : "there is no index that says which counts") +
                                            "; remove one or write " + std::string(kIndexName));
  }

  void RecordSuperseded(std::span<const size_t> copies, size_t chosen) {
    if (copies.size() < 2) return;
    SupersededTensor superseded{.name = found_[chosen].name, .used = FileOf(found_[chosen]), .ignored = {}};
    for (const size_t copy : copies) {
      if (copy != chosen) superseded.ignored.push_back(FileOf(found_[copy]));
    }
    headers_.superseded.push_back(std::move(superseded));
  }

  bool IsThere(const std::string& tensor) const {
    const auto& tensors = headers_.tensors;  // by name
    const auto found = std::lower_bound(tensors.begin(), tensors.end(), tensor,
                                        [](const HeaderTensor& a, const std::string& name) { return a.name < name; });
    return found != tensors.end() && found->name == tensor;
  }

  Status CheckIndexedAreThere() {
    std::optional<std::pair<std::string, std::string>> absent;
    size_t absent_count = 0;
    for (const auto& [tensor, file] : index_) {
      if (indexed_that_are_there_ == index_.size() || IsThere(tensor)) continue;
      ++absent_count;
      if (!absent || tensor < absent->first) absent = {tensor, file};
    }
    if (!absent) {
      if (!headers_.missing_files.empty()) headers_.stale_index = true;
      return {};
    }
    const std::string index_path = "'" + headers_.folder + "/" + std::string(kIndexName) + "'";
    if (std::binary_search(headers_.missing_files.begin(), headers_.missing_files.end(), absent->second)) {
      return Error(ErrorCode::kNotFound, "'" + headers_.folder + "/" + absent->second + "': a shard that " +
                                             index_path + " names is missing (" +
                                             std::to_string(headers_.missing_files.size()) + " of " +
                                             std::to_string(headers_.indexed_files.size()) + " shards are, with " +
                                             std::to_string(absent_count) + " of " + std::to_string(index_.size()) +
                                             " tensors); fetch the rest of the checkpoint");
    }
    return Error(ErrorCode::kMalformed, index_path + ": tensor '" + absent->first + "' is not in shard '" +
                                            absent->second + "', where the index puts it, nor in any other file (" +
                                            std::to_string(absent_count) + " such tensors)");
  }

  ReadCount* count_;
  CheckpointHeaders headers_;
  Index index_;
  std::vector<HeaderTensor> found_;  // all copies, by file
  size_t indexed_that_are_there_ = 0;
};

}  // namespace

Result<std::string> ReadSmallFile(const std::string& path, uint64_t limit_bytes, ReadCount* count) {
  HAYPILE_TRY_ASSIGN(const HeaderFile file, HeaderFile::Open(path, count));
  if (file.size() > limit_bytes) {
    return Error(ErrorCode::kMalformed, "'" + path + "': " + std::to_string(file.size()) + " bytes; at most " +
                                            std::to_string(limit_bytes) + " are expected of such a file");
  }
  std::string text(file.size(), '\0');
  HAYPILE_TRY(file.ReadAt(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  return text;
}

Result<CheckpointHeaders> ReadCheckpointHeaders(const std::string& folder, ReadCount* count) {
  HAYPILE_TRY_ASSIGN(const std::vector<std::string> on_disk, SafetensorsIn(folder));
  HeaderCollector collector(folder, count);
  HAYPILE_TRY(collector.ReadIndex());
  HAYPILE_TRY(collector.ReadFiles(on_disk));
  HAYPILE_TRY(collector.Settle());
  CheckpointHeaders headers = std::move(collector).Take();
  if (headers.files.empty() && !headers.has_index) {
    return Error(ErrorCode::kNotFound, "'" + folder + "': holds no safetensors file");
  }
  return headers;
}

}  // namespace haypile
