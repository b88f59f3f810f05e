#pragma once

#include <chrono>
#include <cstdint>

namespace quire {

/// Keeps the largest scheduling delay (the time that a thread slept longer than it asked for) of the last five to ten
/// seconds. With this delay one can tell a busy machine from a dead process: a machine that has just woken threads late
/// is likely to do so again. Only one thread may use an object of this class.
class RecentDelay {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kWindow = std::chrono::seconds(5);

  /// Records that a thread asked to sleep for `wanted` and slept for `took`.
  void Note(Clock::duration wanted, Clock::duration took, Clock::time_point now);
  Clock::duration largest() const { return latest_ > earlier_ ? latest_ : earlier_; }

 private:
  Clock::time_point window_begin_;
  Clock::duration latest_{0}, earlier_{0};  // the largest delays of the present time window and of the previous one
};

/// Returns for how many microseconds since its start the process's main thread was ready to run but had no core, as
/// /proc/self/schedstat says; 0 if the kernel does not count them.
int64_t StarvedMicros();

}  // namespace quire
