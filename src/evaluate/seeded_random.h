#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace haypile {

// SplitMix64 (Steele, Lea and Flood 2014). The same seed gives the same draws with every standard library, which
// <random>'s distributions do not promise: prompts and bootstrap intervals must not change with the compiler.
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // In [0, bound), bound >= 1. The modulo's bias is below bound / 2^64.
  size_t Below(size_t bound) {
    HAYPILE_CHECK_LT(0u, bound);
    return static_cast<size_t>(Next() % bound);
  }

 private:
  uint64_t state_;
};

}  // namespace haypile
