#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_type.h"

namespace haypile {

// A GGUF file (version 2 or 3), memory-mapped. Every accessor's error names the file and the key or tensor.
class GgufFile {
 public:
  // The whole structure is validated here: kMalformed names the key or tensor and the byte offset; kUnsupported for a
  // version, byte order, tensor type or split file that this reader does not know.
  static Result<std::shared_ptr<const GgufFile>> Open(const std::string& path);
  // The same from memory; `bytes` must outlive the file, `name` stands for it in messages.
  static Result<std::shared_ptr<const GgufFile>> Parse(const std::string& name, std::span<const uint8_t> bytes);
  virtual ~GgufFile() = default;

  // Metadata. Get* fail with kNotFound for an absent key and kMalformed for one of another type; integers of any width
  // and sign are accepted where the value fits.
  virtual bool Has(std::string_view key) const = 0;
  virtual Result<std::string> GetString(std::string_view key) const = 0;
  virtual Result<int64_t> GetInt(std::string_view key) const = 0;
  virtual Result<double> GetFloat(std::string_view key) const = 0;
  virtual Result<bool> GetBool(std::string_view key) const = 0;
  virtual Result<std::vector<std::string>> GetStringArray(std::string_view key) const = 0;
  // Bools count as 0 and 1 here.
  virtual Result<std::vector<int64_t>> GetIntArray(std::string_view key) const = 0;
  virtual Result<std::vector<float>> GetFloatArray(std::string_view key) const = 0;
  virtual bool IsArray(std::string_view) const { return false; }

  // The name that Open or Parse got.
  virtual std::string path() const { return ""; }
  // In file order, shapes row-major (the file's dimensions reversed).
  virtual std::span<const StoredTensor> tensors() const { return {}; }
  // Null for an unknown name.
  const StoredTensor* FindTensor(std::string_view name) const;
};

}  // namespace haypile
