#include "checkpoint/header_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace haypile {

Result<HeaderFile> HeaderFile::Open(const std::string& path, ReadCount* count) {
  // O_NONBLOCK: a pipe is refused below, not waited for.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error(code, "'" + path + "': cannot be opened: " + std::strerror(errno));
  }
  HeaderFile file(path, descriptor, 0, count);
  struct stat state;
  if (fstat(descriptor, &state) != 0 || !S_ISREG(state.st_mode)) {
    return Error(ErrorCode::kIo, "'" + path + "': not a regular file");
  }
  file.size_ = static_cast<uint64_t>(state.st_size);
  ++count->files;
  return file;
}

HeaderFile::HeaderFile(HeaderFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      count_(other.count_) {}

HeaderFile::~HeaderFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status HeaderFile::ReadAt(uint64_t offset, std::span<uint8_t> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Error(ErrorCode::kMalformed, "'" + path_ + "': byte " + std::to_string(offset) + ": " +
                                            std::to_string(out.size()) + " bytes are wanted; the file holds " +
                                            std::to_string(size_) + " in all");
  }
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Error(ErrorCode::kIo, "'" + path_ + "': byte " + std::to_string(offset + done) + ": " +
                                       (got < 0 ? std::strerror(errno) : "the file became shorter"));
    }
    done += static_cast<size_t>(got);
  }
  count_->bytes += out.size();
  ++count_->reads;
  return {};
}

}  // namespace haypile
