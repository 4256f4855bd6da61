#include "modelstore/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/interrupt.h"

namespace haypile {

Result<FileLock> FileLock::Acquire(const std::string& path, const std::function<void()>& on_wait) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Error(ErrorCode::kIo, "cannot open lock file '" + path + "': " + std::strerror(errno));
  FileLock lock(fd);
  bool told = false;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return Error(ErrorCode::kIo, "cannot lock '" + path + "': " + std::strerror(errno));
    }
    if (Interrupted()) return Error(ErrorCode::kInterrupted, "interrupted while waiting for '" + path + "'");
    if (!told && on_wait) on_wait();
    told = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return lock;
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace haypile
