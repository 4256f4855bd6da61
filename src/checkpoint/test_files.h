#pragma once

// Writers of small GGUF and safetensors files for this module's tests. They write what they are told, also nonsense.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "checkpoint/gguf_value.h"

namespace haypile::testing_files {

template <typename T>
std::string Raw(T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string GgufString(std::string_view text) { return Raw<uint64_t>(text.size()) + std::string(text); }

template <typename T>
std::string RawArray(const std::vector<T>& values) {
  std::string bytes;
  for (const T& value : values) bytes += Raw(value);
  return bytes;
}

inline std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct GgufTensorRecord {
  std::string name;
  std::vector<uint64_t> dims;  // contiguous dimension first, as in the file
  uint32_t type = 0;
  std::string data;
  std::optional<uint64_t> offset;  // laid out one after another when absent
};

class GgufWriter {
 public:
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count, value_count;
  uint64_t alignment = 32;  // of the layout; the file says it only when a test adds the key
  std::vector<GgufTensorRecord> tensors;

  void AddRaw(std::string_view key, uint32_t type, std::string_view bytes) {
    values_ += GgufString(key) + Raw(type) + std::string(bytes);
    ++values_written_;
  }
  void Add(std::string_view key, std::string_view text) { AddRaw(key, 8, GgufString(text)); }
  void Add(std::string_view key, uint32_t value) { AddRaw(key, 4, Raw(value)); }
  void Add(std::string_view key, float value) { AddRaw(key, 6, Raw(value)); }
  void AddBool(std::string_view key, bool value) { AddRaw(key, 7, Raw<uint8_t>(value)); }
  void AddArray(std::string_view key, uint32_t element_type, uint64_t count, std::string_view bytes) {
    AddRaw(key, 9, Raw(element_type) + Raw(count) + std::string(bytes));
  }
  void AddTensor(std::string name, std::vector<uint64_t> dims, const std::vector<float>& values) {
    tensors.push_back({std::move(name), std::move(dims), 0, RawArray(values), std::nullopt});
  }

  std::string Build() const {
    std::string records, data;
    for (const GgufTensorRecord& tensor : tensors) {
      data.resize((data.size() + alignment - 1) / alignment * alignment);
      records += GgufString(tensor.name) + Raw(static_cast<uint32_t>(tensor.dims.size()));
      for (const uint64_t dim : tensor.dims) records += Raw(dim);
      records += Raw(tensor.type) + Raw(tensor.offset.value_or(data.size()));
      data += tensor.data;
    }
    std::string file = magic + Raw(version) + Raw<uint64_t>(tensor_count.value_or(tensors.size())) +
                       Raw<uint64_t>(value_count.value_or(values_written_)) + values_ + records;
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data;
  }

 private:
  std::string values_;
  uint64_t values_written_ = 0;
};

// A header as given, with its true length in front, and the data.
inline std::string SafetensorsFile(std::string_view header, std::string_view data) {
  return Raw<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

class SafetensorsWriter {
 public:
  void Add(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view data) {
    header_ += (header_.empty() ? "{\"" : ",\"") + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) +
               "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":[" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + data.size()) + "]}";
    data_ += data;
  }
  std::string Build() const { return SafetensorsFile(header_.empty() ? "{}" : header_ + "}", data_); }

 private:
  std::string header_, data_;
};

// A folder that lives as long as this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "haypile_checkpoint_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Write(const std::string& name, std::string_view content) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return file;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace haypile::testing_files
