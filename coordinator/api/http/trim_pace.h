#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace quire {

/// Says when freed memory goes back to the system, which takes the I/O thread time: after so many connections that had
/// some of OpenSSL's, and once in ten seconds at the most, however fast clients come and go.
class TrimPace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kEndedBetween = 1024;  // connections, of up to 0.1 MB each
  static constexpr std::chrono::seconds kApart{10};

  /// One has ended. When memory is to be given back; nothing: not yet, or that is planned already.
  std::optional<Clock::time_point> Count(Clock::time_point now) {
    if (++ended_ < kEndedBetween || last_ > now) return std::nullopt;
    ended_ = 0;
    last_ = std::max(now, last_ + kApart);
    return last_;
  }

 private:
  int ended_ = 0;
  Clock::time_point last_;
};

}  // namespace quire
