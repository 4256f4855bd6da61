#include "base/machine.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(Machine, FiguresArePlausible) {
  EXPECT_FALSE(CpuModel().empty());
  EXPECT_GT(MemoryBytes().value_or(0), int64_t{64} << 20);
  if (const auto clock = MeasureClockMhz()) {
    EXPECT_GT(*clock, 200);
    EXPECT_LT(*clock, 8000);
  }
  ThreadPool pool(2);
  const double bandwidth = MeasureReadBandwidth(pool, int64_t{64} << 20, 2);
  EXPECT_GT(bandwidth, 0.2);
  EXPECT_LT(bandwidth, 5000);
}

}  // namespace
}  // namespace haypile
