#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "base/file.h"
#include "checkpoint/byte_cursor.h"
#include "checkpoint/json_scanner.h"

namespace haypile {
namespace {

// One header entry; `offset` is that of its key in the file.
struct Entry {
  StoredTensor tensor;
  uint64_t offset = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

Result<Entry> ReadEntry(JsonScanner* scanner, const std::string& key) {
  Entry entry;
  entry.tensor.name = key;
  entry.offset = scanner->offset();
  const std::string who = "tensor " + QuotedName(key);
  bool has_shape = false;
  std::vector<int64_t> range;
  const auto read_field = [&](const std::string& field) -> Status {
    if (field == "dtype") {
      HAYPILE_TRY_ASSIGN(const std::string dtype, scanner->ReadString());
      entry.tensor.type = SafetensorsWeightType(dtype);
      if (entry.tensor.type != nullptr) return {};
      const Error bad = scanner->Bad(who + " has dtype " + QuotedName(dtype) + ", which is not known");
      return Error(ErrorCode::kUnsupported, bad.message());
    }
    if (field == "shape") {
      has_shape = true;
      HAYPILE_TRY_ASSIGN(entry.tensor.shape, scanner->ReadIntArray());
      return {};
    }
    if (field == "data_offsets") {
      HAYPILE_TRY_ASSIGN(range, scanner->ReadIntArray());
      return {};
    }
    return scanner->Bad(who + " has an unknown field " + QuotedName(field));
  };
  HAYPILE_TRY(scanner->ReadObject(read_field));
  if (entry.tensor.type == nullptr) return scanner->BadAt(entry.offset, who + " has no dtype");
  if (!has_shape) return scanner->BadAt(entry.offset, who + " has no shape");
  if (range.size() != 2) return scanner->BadAt(entry.offset, who + " has no data_offsets of two numbers");
  entry.begin = range[0];
  entry.end = range[1];
  return entry;
}

Status CheckEntry(const JsonScanner& scanner, const Entry& entry, uint64_t data_bytes) {
  const StoredTensor& tensor = entry.tensor;
  const std::string who = "tensor " + QuotedName(tensor.name);
  const std::string range = ShapeText(std::array{entry.begin, entry.end});
  if (entry.begin > entry.end || static_cast<uint64_t>(entry.end) > data_bytes) {
    return scanner.BadAt(entry.offset, who + " has data_offsets " + range + " outside the " +
                                           std::to_string(data_bytes) + " bytes of data");
  }
  const std::optional<int64_t> elements = ElementCount(tensor.shape);
  int64_t wanted = 0;
  if (!elements || *elements % tensor.type->block_elements != 0 ||
      __builtin_mul_overflow(*elements / tensor.type->block_elements, int64_t{tensor.type->block_bytes}, &wanted)) {
    return scanner.BadAt(entry.offset, who + " of shape " + ShapeText(tensor.shape) + " and dtype " +
                                           std::string(tensor.type->name) + " has no size in whole bytes below 2^63");
  }
  if (wanted != entry.end - entry.begin) {
    return scanner.BadAt(entry.offset, who + " of shape " + ShapeText(tensor.shape) + " and dtype " +
                                           std::string(tensor.type->name) + " needs " + std::to_string(wanted) +
                                           " bytes; data_offsets " + range + " give " +
                                           std::to_string(entry.end - entry.begin));
  }
  return {};
}

// The ranges, sorted, must follow one another from 0 to the end of the data.
Status CheckCover(const JsonScanner& scanner, const std::vector<Entry>& entries, uint64_t data_bytes,
                  uint64_t data_start) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  int64_t covered = 0;
  const Entry* before = nullptr;
  for (const Entry* entry : order) {
    const std::string who = "tensor " + QuotedName(entry->tensor.name);
    if (entry->begin < covered) {
      return scanner.BadAt(entry->offset, who + " overlaps tensor " + QuotedName(before->tensor.name) +
                                              " at data byte " + std::to_string(entry->begin));
    }
    if (entry->begin > covered) {
      return scanner.BadAt(entry->offset, "a hole of " + std::to_string(entry->begin - covered) +
                                              " bytes that no tensor owns lies before " + who);
    }
    covered = entry->end;
    before = entry;
  }
  if (static_cast<uint64_t>(covered) != data_bytes) {
    return scanner.BadAt(
        data_start + static_cast<uint64_t>(covered),
        std::to_string(data_bytes - static_cast<uint64_t>(covered)) + " bytes after the last tensor belong to none");
  }
  return {};
}

bool Exists(const std::string& path) {
  std::error_code ec;
  return std::filesystem::exists(path, ec);
}

}  // namespace

Result<std::vector<StoredTensor>> ParseSafetensors(const std::string& name, std::span<const uint8_t> bytes) {
  const auto bad = [&name](uint64_t offset, const std::string& what) {
    return Error(ErrorCode::kMalformed, "'" + name + "': byte " + std::to_string(offset) + ": " + what);
  };
  ByteCursor cursor(bytes);
  uint64_t header_bytes = 0;
  if (!cursor.Read(&header_bytes)) {
    return bad(0,
               "not a safetensors file: " + std::to_string(bytes.size()) + " bytes, shorter than the header's length");
  }
  std::string_view header;
  if (header_bytes > kLongestSafetensorsHeader || !cursor.ReadBytes(header_bytes, &header)) {
    return bad(0, "claims a header of " + std::to_string(header_bytes) + " bytes; the file holds " +
                      std::to_string(cursor.remaining()) + " more and at most 100000000 are allowed");
  }
  JsonScanner scanner(header, "'" + name + "'", sizeof(header_bytes));
  if (!header.starts_with('{')) return bad(sizeof(header_bytes), "the header does not begin with '{'");
  const uint64_t data_start = cursor.position();
  const uint64_t data_bytes = cursor.remaining();
  std::vector<Entry> entries;
  const auto skip_string = [&scanner](const std::string&) -> Status {
    HAYPILE_TRY(scanner.ReadString());
    return {};
  };
  const auto read_member = [&](const std::string& key) -> Status {
    if (key == "__metadata__") return scanner.ReadObject(skip_string);
    HAYPILE_TRY_ASSIGN(Entry entry, ReadEntry(&scanner, key));
    HAYPILE_TRY(CheckEntry(scanner, entry, data_bytes));
    entry.tensor.file_offset = data_start + static_cast<uint64_t>(entry.begin);
    entry.tensor.bytes = bytes.subspan(entry.tensor.file_offset, static_cast<size_t>(entry.end - entry.begin));
    entries.push_back(std::move(entry));
    return {};
  };
  HAYPILE_TRY(scanner.ReadObject(read_member));
  HAYPILE_TRY(scanner.ExpectEnd());
  HAYPILE_TRY(CheckCover(scanner, entries, data_bytes, data_start));
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

Result<std::unordered_map<std::string, std::string>> ParseSafetensorsIndex(const std::string& name,
                                                                           std::string_view text) {
  JsonScanner scanner(text, "'" + name + "'", 0);
  std::unordered_map<std::string, std::string> shard_of;
  bool has_map = false;
  const auto read_shard = [&](const std::string& tensor) -> Status {
    HAYPILE_TRY_ASSIGN(std::string shard, scanner.ReadString());
    if (shard.empty() || shard.find('/') != std::string::npos || shard.find('\0') != std::string::npos ||
        shard.starts_with('.')) {
      return scanner.Bad("tensor " + QuotedName(tensor) + " names shard " + QuotedName(shard) +
                         ", which is not a file name in this folder");
    }
    shard_of[tensor] = std::move(shard);
    return {};
  };
  const auto read_section = [&](const std::string& section) -> Status {
    if (section != "weight_map") return scanner.SkipValue();
    has_map = true;
    return scanner.ReadObject(read_shard);
  };
  HAYPILE_TRY(scanner.ReadObject(read_section));
  HAYPILE_TRY(scanner.ExpectEnd());
  if (!has_map) return scanner.BadAt(0, "no \"weight_map\"");
  return shard_of;
}

Result<SafetensorsFolder> SafetensorsFolder::Open(const std::string& folder) {
  SafetensorsFolder result;
  const std::string single = folder + "/model.safetensors";
  if (Exists(single)) {
    HAYPILE_TRY(result.AddFile(single, nullptr, "model.safetensors"));
    return result;
  }
  const std::string index_path = folder + "/model.safetensors.index.json";
  if (!Exists(index_path)) {
    if (Exists(folder + "/pytorch_model.bin") || Exists(folder + "/pytorch_model.bin.index.json")) {
      return Error(ErrorCode::kUnsupported,
                   "'" + folder + "' holds pickled weights (pytorch_model.bin); convert them to safetensors");
    }
    return Error(ErrorCode::kNotFound,
                 "'" + folder + "' has neither model.safetensors nor model.safetensors.index.json");
  }
  HAYPILE_TRY_ASSIGN(const std::string text, ReadFile(index_path, kLongestSafetensorsIndex));
  HAYPILE_TRY_ASSIGN(const auto index, ParseSafetensorsIndex(index_path, text));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index) shards.insert(shard);
  for (const std::string& shard : shards) {
    Status added = result.AddFile(folder + "/" + shard, &index, shard);
    if (!added.ok()) return std::move(added).error().WithContext("a shard that '" + index_path + "' names");
  }
  HAYPILE_TRY(result.CheckIndex(index_path, index));
  return result;
}

Status SafetensorsFolder::AddFile(const std::string& path, const std::unordered_map<std::string, std::string>* index,
                                  const std::string& file_name) {
  HAYPILE_TRY_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  HAYPILE_TRY_ASSIGN(std::vector<StoredTensor> tensors, ParseSafetensors(path, file->bytes()));
  files_.push_back(std::move(file));
  for (StoredTensor& tensor : tensors) {
    if (index != nullptr) {
      // A tensor belongs to the shard that the index gives; copies elsewhere are not read.
      const auto owner = index->find(tensor.name);
      if (owner == index->end() || owner->second != file_name) continue;
    }
    file_of_[tensor.name] = path;
    tensors_.emplace(tensor.name, std::move(tensor));
  }
  return {};
}

Status SafetensorsFolder::CheckIndex(const std::string& index_path,
                                     const std::unordered_map<std::string, std::string>& index) const {
  for (const auto& [tensor, shard] : index) {
    if (tensors_.contains(tensor)) continue;
    return Error(ErrorCode::kMalformed, "'" + index_path + "': tensor " + QuotedName(tensor) + " is not in shard " +
                                            QuotedName(shard) + ", where the index puts it");
  }
  return {};
}

const StoredTensor* SafetensorsFolder::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::string SafetensorsFolder::FileOf(const std::string& tensor) const {
  const auto found = file_of_.find(tensor);
  return found == file_of_.end() ? "" : found->second;
}

}  // namespace haypile
