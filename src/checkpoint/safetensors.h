#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/weight_type.h"

namespace haypile {

// Bytes of a file's header: the limit of the format's reference implementation.
inline constexpr uint64_t kLongestSafetensorsHeader = 100'000'000;
// Bytes of an index; the largest published ones have a few MiB.
inline constexpr uint64_t kLongestSafetensorsIndex = 256 << 20;

// One safetensors file: a 64-bit header length, a JSON header that gives dtype, shape and byte range of every tensor,
// then the data, which the ranges must cover without hole or overlap. kMalformed errors name file, tensor and byte;
// a dtype that is not known is kUnsupported. The tensors point into `bytes`.
Result<std::vector<StoredTensor>> ParseSafetensors(const std::string& name, std::span<const uint8_t> bytes);

// The map from tensor to shard file of a model.safetensors.index.json.
Result<std::unordered_map<std::string, std::string>> ParseSafetensorsIndex(const std::string& name,
                                                                           std::string_view text);

// The tensors of a Hugging Face folder: model.safetensors if it is there, otherwise the shards that
// model.safetensors.index.json names. Every indexed tensor is present in its shard.
class SafetensorsFolder {
 public:
  // kNotFound when the folder has neither file or a shard is missing; kUnsupported when there are only pickled weights.
  static Result<SafetensorsFolder> Open(const std::string& folder);

  const std::unordered_map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* Find(const std::string& name) const;
  // The file that holds `tensor`, for messages.
  std::string FileOf(const std::string& tensor) const;

 private:
  Status AddFile(const std::string& path, const std::unordered_map<std::string, std::string>* index,
                 const std::string& file_name);
  Status CheckIndex(const std::string& index_path, const std::unordered_map<std::string, std::string>& index) const;

  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::unordered_map<std::string, StoredTensor> tensors_;
  std::unordered_map<std::string, std::string> file_of_;
};

}  // namespace haypile
