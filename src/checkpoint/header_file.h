#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace haypile {

// What was read from disk, of all files together.
struct ReadCount {
  uint64_t bytes = 0;
  uint64_t reads = 0;
  uint64_t files = 0;
};

// A file read at given places only. Nothing is mapped, so what is not asked for is not touched, and every byte that is
// asked for is counted.
class HeaderFile {
 public:
  // `count` must outlive the file. kNotFound, or kIo for anything else that the system refuses and for what is not a
  // regular file. Errors name it.
  static Result<HeaderFile> Open(const std::string& path, ReadCount* count);
  ~HeaderFile();
  HeaderFile(HeaderFile&& other) noexcept;
  HeaderFile& operator=(HeaderFile&&) = delete;
  HeaderFile(const HeaderFile&) = delete;
  HeaderFile& operator=(const HeaderFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Fills `out` from `offset`. kMalformed when the file ends before, kIo.
  Status ReadAt(uint64_t offset, std::span<uint8_t> out) const;

 private:
  HeaderFile(std::string path, int descriptor, uint64_t size, ReadCount* count)
      : path_(std::move(path)), descriptor_(descriptor), size_(size), count_(count) {}

  std::string path_;
  int descriptor_;
  uint64_t size_;
  ReadCount* count_;
};

}  // namespace haypile
