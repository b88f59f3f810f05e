#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace quire::test {

/// One thread for each rank of a group, as long as the group exists, because a device belongs to the thread that opened
/// it.
class RankThreads {
 public:
  explicit RankThreads(size_t size) {
    for (size_t rank = 0; rank < size; ++rank) threads_.push_back(std::make_unique<One>());
  }

  /// Runs body(rank) on every thread and waits for all. Calls on_error(rank) on each thread that throws, then rethrows
  /// the exception of the lowest such rank.
  void Run(const std::function<void(size_t)>& body, const std::function<void(size_t)>& on_error) {
    std::vector<std::exception_ptr> errors(threads_.size());
    for (size_t rank = 0; rank < threads_.size(); ++rank) {
      threads_[rank]->Start([&, rank] {
        try {
          body(rank);
        } catch (...) {
          errors[rank] = std::current_exception();
          on_error(rank);
        }
      });
    }
    for (const auto& thread : threads_) thread->Wait();
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  class One {
   public:
    One() : thread_([this] { Loop(); }) {}
    ~One() {
      Start(nullptr);
      thread_.join();
    }
    void Start(std::function<void()> task) {
      const std::lock_guard lock(mutex_);
      task_ = std::move(task);
      busy_ = true;
      changed_.notify_all();
    }
    void Wait() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !busy_; });
    }

   private:
    void Loop() {
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [this] { return busy_; });
        if (!task_) return;
        lock.unlock();
        task_();
        lock.lock();
        busy_ = false;
        changed_.notify_all();
      }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> task_;  // null: end the thread
    bool busy_ = false;
    std::thread thread_;
  };

  std::vector<std::unique_ptr<One>> threads_;
};

}  // namespace quire::test
