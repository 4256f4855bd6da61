#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace haypile {

// An advisory lock between processes on a file of its own, which is created and stays. Released by the destructor, or
// by the system when the process dies.
class FileLock {
 public:
  // Waits until the lock is free; `on_wait` is called once if it was not. kIo, kInterrupted.
  static Result<FileLock> Acquire(const std::string& path, const std::function<void()>& on_wait);

  FileLock(FileLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace haypile
