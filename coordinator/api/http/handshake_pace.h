#pragma once

#include <algorithm>
#include <chrono>

#include "coordinator/api/http/network_turns.h"

namespace quire {

/// Spaces the beginnings of TLS handshakes. Each costs the thread that moves everybody's bytes half a millisecond or,
/// with an RSA key of 4,096 bits, four, and whoever connects has to show nothing for it: together they get 0.4 of that
/// thread, and networks take turns. An idle port takes a burst at once. A leaky bucket, kept as the time when it will
/// be empty (the generic cell rate algorithm). Not thread-safe.
class HandshakePace {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = NetworkTurns::Ticket;
  static constexpr std::chrono::microseconds kLeastApart{2500};  // 400 a second, however cheap they are
  static constexpr std::chrono::milliseconds kBurst{250};        // so many as are spaced over that begin at once

  /// What each takes of the thread from now on.
  void Cost(Clock::duration cost) { apart_ = std::max<Clock::duration>(kLeastApart, cost * 5 / 2); }
  /// The ticket waits for its turn.
  void Wait(Ticket ticket, const boost::asio::ip::address& network) { turns_.Wait(ticket, network); }
  /// The ticket, if it waits, does so no more.
  void Withdraw(Ticket ticket, const boost::asio::ip::address& network) { turns_.Withdraw(ticket, network); }
  bool waiting() const { return turns_.waiting(); }
  /// When the next one may begin; not before `now`, which never decreases.
  Clock::time_point Next(Clock::time_point now) const {
    return std::max(now, empty_ + apart_ - std::max<Clock::duration>(kBurst, apart_));
  }
  /// The ticket whose turn it is begins. Somebody must be waiting.
  Ticket Begin(Clock::time_point now) {
    empty_ = std::max(empty_, now) + apart_;
    return turns_.Next();
  }

 private:
  Clock::duration apart_ = kLeastApart;
  Clock::time_point empty_;
  NetworkTurns turns_;
};

}  // namespace quire
