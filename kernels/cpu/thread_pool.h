#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace quire::kernels {

/// Runs one job at a time on a fixed set of threads. The caller is thread 0. If num_threads is 1, the pool starts no
/// thread.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  /// Cuts [0, count) into at most one contiguous part for each thread, and calls body(begin, end, thread) for each
  /// part. Parts begin at multiples of `grain`.
  void ForRange(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body);

  /// Calls body(item, thread) for every item in [0, count). A thread takes the next item whenever it is free.
  void ForEach(int64_t count, const std::function<void(int64_t, int)>& body);

 private:
  void RunOnAll(const std::function<void(int)>& job);
  void ThreadMain(int thread);

  std::vector<std::thread> threads_;
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<uint32_t> generation_{0};
  std::atomic<int> pending_{0};
  bool stopping_ = false;
};

}  // namespace quire::kernels
