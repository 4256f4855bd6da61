#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace haypile {

// Reads little-endian values in sequence and never past the end. A failed read leaves the position where it was.
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const uint8_t> bytes, uint64_t position = 0) : bytes_(bytes), position_(position) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  bool Read(T* value) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  // `size` raw bytes, in place.
  bool ReadBytes(uint64_t size, std::string_view* value) {
    if (remaining() < size) return false;
    *value = {reinterpret_cast<const char*>(bytes_.data()) + position_, static_cast<size_t>(size)};
    position_ += size;
    return true;
  }

  // A string after its 64-bit length.
  bool ReadString(std::string_view* value) {
    const uint64_t start = position_;
    uint64_t size = 0;
    if (Read(&size) && ReadBytes(size, value)) return true;
    position_ = start;
    return false;
  }

 private:
  std::span<const uint8_t> bytes_;
  uint64_t position_;
};

}  // namespace haypile
