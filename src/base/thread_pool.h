#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace haypile {

// A fixed set of threads that run one parallel loop at a time; the calling thread is worker 0. Workers spin for a
// short while between loops (a forward pass has hundreds of them), then sleep.
class ThreadPool {
 public:
  // `threads` >= 1 counts the caller; 0 means every core this process may run on.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(index, worker) once for each index in [0, count), worker in [0, size()); returns when all are done.
  // Indices are handed out one by one, so uneven work balances. Not re-entrant; body must not throw.
  void ParallelFor(size_t count, const std::function<void(size_t index, int worker)>& body);

 private:
  void WorkerLoop(int worker);
  void RunIndices(int worker);

  std::vector<std::thread> threads_;
  std::atomic<uint32_t> epoch_{0};  // raised once for each loop, and to stop
  std::atomic<bool> stop_{false};
  std::atomic<size_t> next_index_{0};
  std::atomic<int> running_{0};
  size_t count_ = 0;
  const std::function<void(size_t, int)>* body_ = nullptr;
};

// Cores that this process may run on (affinity mask), at least 1.
int AvailableCores();

}  // namespace haypile
