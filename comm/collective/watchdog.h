#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace quire {

/// Watches, from a thread of its own, work that other threads have queued. Reports the first failure.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  /// Calls `probe` every `interval`. A failure is a text from `probe` that is not empty, or a deadline that has passed.
  /// Calls `on_failure` with the first failure, and then stops watching.
  Watchdog(std::chrono::milliseconds interval, std::function<std::string()> probe,
           std::function<void(const std::string&)> on_failure);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Replaces the deadline; time_point::max() means none.
  void ExpectDoneBy(Clock::time_point deadline);

 private:
  void Run();

  const std::chrono::milliseconds interval_;
  const std::function<std::string()> probe_;
  const std::function<void(const std::string&)> on_failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  Clock::time_point begun_{}, deadline_ = Clock::time_point::max();
  std::thread thread_;
};

}  // namespace quire
