#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace haypile {

// Plain values at the end and at the front of a string of bytes, in the machine's own order.
template <typename T>
void AppendValue(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// False, with nothing taken, when the bytes are too few.
template <typename T>
bool TakeValue(std::string_view& bytes, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return true;
}

}  // namespace haypile
