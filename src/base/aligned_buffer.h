#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace haypile {

// Zeroed memory for weights, pools and scratch: 64-byte aligned; from 2 MiB on, 2 MiB aligned with huge pages asked
// for by madvise (worth up to 1.4 times the read bandwidth where the system grants them).
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // kOutOfBudget when the system cannot give `size_bytes`.
  static Result<AlignedBuffer> Allocate(size_t size_bytes);

  AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    return *this;
  }
  ~AlignedBuffer();

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t mapped_bytes_ = 0;
};

}  // namespace haypile
