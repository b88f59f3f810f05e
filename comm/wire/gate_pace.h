#pragma once

#include <algorithm>
#include <chrono>

namespace quire {

/// Spaces what costs time: a look at a hello takes some 0.1 ms of the thread of strangers, a
/// handshake with the socket behind 0.5 ms of that one's. A leaky bucket, kept as the time when it will be empty.
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
