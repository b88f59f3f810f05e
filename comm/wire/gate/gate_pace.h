#pragma once

#include <algorithm>
#include <chrono>

namespace quire {

/// A leaky bucket that limits how often expensive work of handshakes is done: checking a HELLO takes 0.1 ms of the
/// gate's thread, and a handshake takes 0.5 ms of ZeroMQ's thread. `empty_` is the time at which the bucket will be
/// empty.
class GatePace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kLook{500}, kHandshake{5000};

  Clock::time_point next() const { return empty_ - kBurst; }
  void Spend(Clock::time_point now, Clock::duration cost) { empty_ = std::max(empty_, now) + cost; }

 private:
  static constexpr std::chrono::milliseconds kBurst{250};
  Clock::time_point empty_;
};

}  // namespace quire
