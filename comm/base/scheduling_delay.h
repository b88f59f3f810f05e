#pragma once

#include <chrono>
#include <cstdint>

namespace quire {

/// The largest delay of the last five to ten seconds: what tells a busy machine from a dead process, because a machine
/// that woke threads late a moment ago will do so again. Belongs to one thread.
class RecentDelay {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kWindow = std::chrono::seconds(5);

  /// A thread asked to be woken after `wanted` and was, after `took`.
  void Note(Clock::duration wanted, Clock::duration took, Clock::time_point now);
  Clock::duration largest() const { return latest_ > earlier_ ? latest_ : earlier_; }

 private:
  Clock::time_point window_begin_;
  Clock::duration latest_{0}, earlier_{0};  // of this window and of the one before it
};

/// How long the process's first thread has wanted a core and had none, since it began, as the kernel counts it
/// (/proc/self/schedstat); 0 where it does not.
int64_t StarvedMicros();

}  // namespace quire
