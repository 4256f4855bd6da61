#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace haypile {
namespace {

Error IoError(const std::string& action, const std::string& path) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Error(code, "cannot " + action + " '" + path + "': " + std::strerror(errno));
}

std::string TemporaryBeside(const std::string& path) { return path + ".tmp." + std::to_string(getpid()); }

Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return IoError("write", path);
    content.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, uint64_t limit_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return IoError("open", path);
  std::string content;
  char chunk[1 << 16];
  while (true) {
    const ssize_t got = read(fd, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Error error = IoError("read", path);
      close(fd);
      return error;
    }
    if (got == 0) break;
    content.append(chunk, static_cast<size_t>(got));
    if (content.size() > limit_bytes) {
      close(fd);
      return Error(ErrorCode::kMalformed, "'" + path + "' is larger than " + std::to_string(limit_bytes) + " bytes");
    }
  }
  close(fd);
  return content;
}

Status WriteFileAtomic(const std::string& path, std::string_view content) {
  const std::string temporary = TemporaryBeside(path);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return IoError("create", temporary);
  Status status = WriteAll(fd, content, temporary);
  if (status.ok() && fsync(fd) != 0) status = IoError("sync", temporary);
  if (close(fd) != 0 && status.ok()) status = IoError("close", temporary);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = IoError("rename to", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

Status CheckWritable(const std::string& path) {
  if (path.empty()) return Error(ErrorCode::kInvalidArgument, "an output path is empty");
  if (std::error_code ec; std::filesystem::is_directory(path, ec)) {
    return Error(ErrorCode::kIo, "cannot write '" + path + "': it is a folder; name a file");
  }
  const std::string temporary = TemporaryBeside(path);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return Error(ErrorCode::kIo, "cannot write '" + path + "': " + std::strerror(errno));
  close(fd);
  unlink(temporary.c_str());
  return {};
}

}  // namespace haypile
