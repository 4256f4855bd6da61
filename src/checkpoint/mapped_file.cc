#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace haypile {
namespace {

Error SystemError(const std::string& action, const std::string& path) {
  const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Error(code, "cannot " + action + " '" + path + "': " + std::strerror(errno));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path);
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    Error error = SystemError("examine", path);
    close(fd);
    return error;
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return Error(ErrorCode::kIo, "cannot map '" + path + "': it is not a regular file");
  }
  const size_t size_bytes = static_cast<size_t>(info.st_size);
  void* start = nullptr;
  if (size_bytes > 0) {
    start = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (start == MAP_FAILED) {
      Error error = SystemError("map", path);
      close(fd);
      return error;
    }
  }
  close(fd);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {static_cast<const uint8_t*>(start), size_bytes}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace haypile
