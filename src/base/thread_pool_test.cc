#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace haypile {
namespace {

TEST(ThreadPool, EveryIndexRunsOnceForEverySize) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (size_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> hits(count);
      pool.ParallelFor(count, [&](size_t i, int worker) {
        EXPECT_LT(worker, threads);
        hits[i].fetch_add(1);
      });
      for (auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyShortLoopsFinish) {
  ThreadPool pool(4);
  std::atomic<int> sum{0};
  for (int loop = 0; loop < 2000; ++loop) pool.ParallelFor(4, [&](size_t, int) { sum.fetch_add(1); });
  EXPECT_EQ(sum.load(), 8000);
}

}  // namespace
}  // namespace haypile
