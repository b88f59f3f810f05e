#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace quire {

/// Decides when malloc_trim returns freed memory to the system. A trim costs the I/O thread time, so it comes only
/// after kEndedBetween ended TLS connections, and at most once in ten seconds.
class TrimPace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kEndedBetween = 1024;  // ended connections, which had up to 0.1 MB of OpenSSL's memory each
  static constexpr std::chrono::seconds kApart{10};

  /// Counts an ended connection. Returns the time at which to trim; nullopt: not yet, or already planned.
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
