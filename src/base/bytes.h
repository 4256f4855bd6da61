#pragma once

#include <cstdint>

namespace haypile {

inline constexpr int64_t kMib = int64_t{1} << 20;
inline constexpr int64_t kGib = int64_t{1} << 30;

}  // namespace haypile
