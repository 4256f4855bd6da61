#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace haypile {

// A whole file mapped read-only. The file must not shrink while it is mapped: the system then ends the process.
class MappedFile {
 public:
  // kNotFound, or kIo for anything else that the system refuses and for what is not a regular file. Errors name it.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  MappedFile(std::string path, std::span<const uint8_t> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const uint8_t> bytes_;
};

}  // namespace haypile
