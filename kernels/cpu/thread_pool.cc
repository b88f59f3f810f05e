#include "kernels/cpu/thread_pool.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/stream.h"

namespace quire::kernels {

namespace {

// The number of times that a thread looks for a change (a new job, or the end of the current one) before it sleeps. The
// jobs of a step follow each other within microseconds, and an idle pool must cost nothing.
constexpr int kSpins = 4000;
// After this many looks a waiting thread yields. If there are more threads than processors, the awaited thread may need
// the waiting thread's processor.
constexpr int kSpinsBetweenYields = 64;

template <class T>
void AwaitChange(std::atomic<T>& value, T old) {
  for (int i = 1; i <= kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    __builtin_ia32_pause();
    if (i % kSpinsBetweenYields == 0) std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

CpuStream::CpuStream(int num_threads) : pool_(std::make_unique<ThreadPool>(num_threads)) {}
CpuStream::~CpuStream() = default;

ThreadPool::ThreadPool(int num_threads) {
  QUIRE_KERNEL_CHECK(num_threads >= 1);
  for (int i = 1; i < num_threads; ++i) threads_.emplace_back([this, i] { ThreadMain(i); });
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::ThreadMain(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    AwaitChange(generation_, seen);
    if (stopping_) return;
    (*job_)(thread);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

void ThreadPool::RunOnAll(const std::function<void(int)>& job) {
  job_ = &job;
  pending_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  job(0);
  for (int left; (left = pending_.load(std::memory_order_acquire)) != 0;) AwaitChange(pending_, left);
}

void ThreadPool::ForRange(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t, int)>& body) {
  const int64_t units = (count + grain - 1) / grain;
  const int64_t parts = std::min<int64_t>(num_threads(), units);
  if (parts <= 1) {
    if (count > 0) body(0, count, 0);
    return;
  }
  RunOnAll([&](int thread) {
    if (thread >= parts) return;
    const int64_t begin = units * thread / parts * grain;
    const int64_t end = std::min(count, units * (thread + 1) / parts * grain);
    if (begin < end) body(begin, end, thread);
  });
}

void ThreadPool::ForEach(int64_t count, const std::function<void(int64_t, int)>& body) {
  if (num_threads() == 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  RunOnAll([&](int thread) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i, thread);
  });
}

}  // namespace quire::kernels
