#include "comm/collective/watchdog.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire {

Watchdog::Watchdog(std::chrono::milliseconds interval, std::function<std::string()> probe,
                   std::function<void(const std::string&)> on_failure)
    : interval_(interval), probe_(std::move(probe)), on_failure_(std::move(on_failure)), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::ExpectDoneBy(Clock::time_point deadline) {
  // The new deadline does not wake the thread, which looks at the deadline in every interval.
  const std::lock_guard lock(mutex_);
  begun_ = Clock::now();
  deadline_ = deadline;
}

void Watchdog::Run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_until(lock, std::min(Clock::now() + interval_, deadline_));
    if (ending_) return;
    std::string failure;
    if (Clock::now() >= deadline_) {
      const auto given = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - begun_);
      failure =
          fmt::format("not done within {} ms: a rank is stuck or gone, or the deadline is too short", given.count());
    }
    lock.unlock();  // probes and on_failure may take long, and may set deadlines
    if (failure.empty()) failure = probe_();
    if (!failure.empty()) return on_failure_(failure);
    lock.lock();
  }
}

}  // namespace quire
