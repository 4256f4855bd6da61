#include "base/thread_pool.h"

#include <sched.h>

#include "base/check.h"

namespace haypile {
namespace {

// About 40 us of polling on current cores: longer than the gap between two loops of one forward pass.
constexpr int kSpinsBeforeSleep = 2000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int AvailableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

ThreadPool::ThreadPool(int threads) {
  const int total = threads > 0 ? threads : AvailableCores();
  threads_.reserve(total - 1);
  for (int worker = 1; worker < total; ++worker) {
    threads_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::RunIndices(int worker) {
  for (size_t index = next_index_.fetch_add(1); index < count_; index = next_index_.fetch_add(1)) {
    (*body_)(index, worker);
  }
}

void ThreadPool::ParallelFor(size_t count, const std::function<void(size_t, int)>& body) {
  if (count == 0) return;
  if (count == 1 || threads_.empty()) {
    for (size_t index = 0; index < count; ++index) body(index, 0);
    return;
  }
  HAYPILE_CHECK_EQ(running_.load(), 0);
  body_ = &body;
  count_ = count;
  next_index_.store(0);
  running_.store(static_cast<int>(threads_.size()));
  epoch_.fetch_add(1);
  epoch_.notify_all();
  RunIndices(0);
  for (int spins = 0; running_.load(std::memory_order_acquire) > 0; ++spins) {
    if (spins < kSpinsBeforeSleep) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::WorkerLoop(int worker) {
  uint32_t seen = 0;
  while (true) {
    int spins = 0;
    while (epoch_.load(std::memory_order_acquire) == seen) {
      if (++spins < kSpinsBeforeSleep) {
        Pause();
      } else {
        epoch_.wait(seen);
      }
    }
    // Loops never overlap, so the epoch moves by one, or by one more when the pool stops.
    seen = epoch_.load();
    if (stop_.load()) return;
    RunIndices(worker);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace haypile
