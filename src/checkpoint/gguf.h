#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace haypile {

// A GGUF file (version 2 or 3), memory-mapped. Every accessor's error names the file and the key or tensor.
class GgufFile {
 public:
  static Result<std::shared_ptr<const GgufFile>> Open(const std::string& path);
  virtual ~GgufFile() = default;

  // Metadata. Get* fail with kNotFound for an absent key and kMalformed for one of another type; integers of any width
  // and sign are accepted where the value fits.
  virtual bool Has(std::string_view key) const = 0;
  virtual Result<std::string> GetString(std::string_view key) const = 0;
  virtual Result<int64_t> GetInt(std::string_view key) const = 0;
  virtual Result<double> GetFloat(std::string_view key) const = 0;
  virtual Result<bool> GetBool(std::string_view key) const = 0;
  virtual Result<std::vector<std::string>> GetStringArray(std::string_view key) const = 0;
  virtual Result<std::vector<int64_t>> GetIntArray(std::string_view key) const = 0;
  virtual Result<std::vector<float>> GetFloatArray(std::string_view key) const = 0;
};

}  // namespace haypile
