#pragma once

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <map>

namespace quire {

/// Spaces the beginnings of TLS handshakes. Each costs the thread that moves everybody's bytes up to a millisecond (a
/// signature by an RSA key of 2,048 bits), and whoever connects has to show nothing for it: together they get less than
/// half of that thread, and one network half of that. An idle port takes a burst at once. By two leaky buckets kept as
/// the time when they will be empty (the generic cell rate algorithm). Not thread-safe.
class HandshakePace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kPerSecond = 400, kPerSecondOfNetwork = 200, kBurst = 100;

  // A handshake begins at the second of two times, the first of which has come when the second is asked for. Both are
  // counted as taken; neither is before `now`, which never decreases.
  Clock::time_point TurnOfNetwork(const boost::asio::ip::address& network, Clock::time_point now);
  Clock::time_point TurnOfAll(Clock::time_point now);

 private:
  static Clock::time_point Pour(Clock::time_point& empty, int per_second, Clock::time_point now);

  Clock::time_point empty_;
  std::map<boost::asio::ip::address, Clock::time_point> empty_by_network_;  // those that are not empty yet, and some
};

}  // namespace quire
