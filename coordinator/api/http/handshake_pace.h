#pragma once

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>

namespace quire {

/// Spaces the beginnings of TLS handshakes. Each costs the thread that moves everybody's bytes half a millisecond or,
/// with an RSA key of 4,096 bits, four, and whoever connects has to show nothing for it: together they get 0.4 of that
/// thread. An idle port takes a burst at once. Networks take turns: however many connections others have
/// waiting, a network's first one is behind one of each. A leaky bucket, kept as the time when it will be empty (the
/// generic cell rate algorithm). Not thread-safe.
class HandshakePace {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = uint64_t;
  static constexpr std::chrono::microseconds kLeastApart{2500};  // 400 a second, however cheap they are
  static constexpr std::chrono::milliseconds kBurst{250};        // so many as are spaced over that begin at once

  /// What each takes of the thread from now on.
  void Cost(Clock::duration cost) { apart_ = std::max<Clock::duration>(kLeastApart, cost * 5 / 2); }

  /// The ticket waits for its turn.
  void Wait(Ticket ticket, const boost::asio::ip::address& network);
  bool waiting() const { return !turns_.empty(); }
  /// When the next one may begin; not before `now`, which never decreases.
  Clock::time_point Next(Clock::time_point now) const;
  /// The ticket whose turn it is begins. Somebody must be waiting.
  Ticket Begin(Clock::time_point now);

 private:
  Clock::duration apart_ = kLeastApart;
  Clock::time_point empty_;
  std::deque<boost::asio::ip::address> turns_;  // of the networks that wait, the next one first
  std::map<boost::asio::ip::address, std::deque<Ticket>> waiting_;
};

/// Addresses that one customer of a provider may well have all of: they take turns as one. An IPv4 address as it is,
/// and the first 48 bits of an IPv6 address; loopback addresses are one.
boost::asio::ip::address TurnOf(const boost::asio::ip::address& address);

}  // namespace quire
