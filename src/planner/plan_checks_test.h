#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "planner/pool_plan.h"

namespace haypile {

// Whether `part` stands in one of the lines.
inline bool HasLineWith(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&part](const std::string& line) { return line.find(part) != std::string::npos; });
}

// The parts of a pool are all of it.
inline void ExpectSharesAddUp(const PoolPlan& plan) {
  const int64_t sum = std::accumulate(plan.shares.begin(), plan.shares.end(), int64_t{0},
                                      [](int64_t total, const ByteShare& share) { return total + share.bytes; });
  EXPECT_EQ(sum, plan.pool_bytes) << plan.kv_cache_dtype;
}

}  // namespace haypile
