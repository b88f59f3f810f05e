#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "coordinator/http/network_turns.h"

namespace quire {

/// Spaces the starts of TLS handshakes. A handshake costs the I/O thread half a millisecond, or 4 ms with an RSA key of
/// 4,096 bits, and any client can start one. So handshakes get at most 40 % of the I/O thread's time, and networks take
/// turns. After an idle time a burst of handshakes starts without pauses. The class is a leaky bucket, stored as the
/// time when the bucket will be empty (the generic cell rate algorithm). The class itself is not thread-safe.
class HandshakePace {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = NetworkTurns::Ticket;
  static constexpr std::chrono::microseconds kLeastApart{2500};  // least mean time between two starts: 400 a second
  static constexpr std::chrono::milliseconds kBurst{250};  // handshakes due in this time may start without pauses

  /// Sets the time that each later handshake costs the I/O thread.
  void Cost(Clock::duration cost) { apart_ = std::max<Clock::duration>(kLeastApart, cost * 5 / 2); }
  /// Queues the ticket.
  void Wait(Ticket ticket, const boost::asio::ip::address& network) { turns_.Wait(ticket, network); }
  /// Removes the ticket from the queue, if the queue has it.
  void Withdraw(Ticket ticket, const boost::asio::ip::address& network) { turns_.Withdraw(ticket, network); }
  bool waiting() const { return turns_.waiting(); }
  /// Returns the earliest time at which the next handshake may begin, at least `now`. `now` never decreases between
  /// calls.
  Clock::time_point Next(Clock::time_point now) const {
    return std::max(now, empty_ + apart_ - std::max<Clock::duration>(kBurst, apart_));
  }
  /// Takes the next ticket from the queue and charges one handshake. The queue must not be empty.
  Ticket Begin(Clock::time_point now) {
    Charge(now);
    return Take();
  }
  /// Takes the next ticket from the queue. The queue must not be empty.
  Ticket Take() { return turns_.Next(); }
  /// Charges one handshake.
  void Charge(Clock::time_point now) { empty_ = std::max(empty_, now) + apart_; }
  static constexpr std::chrono::seconds kLongestQueue{5};  // longest queue of one network; beyond, the oldest leaves
  /// Returns the network's oldest ticket if the network has more tickets in the queue than handshakes can begin within
  /// kLongestQueue; otherwise nullopt.
  std::optional<Ticket> Surplus(const boost::asio::ip::address& network) const {
    const auto most = static_cast<size_t>(std::max<int64_t>(1, kLongestQueue / apart_));
    return turns_.NumWaiting(network) > most ? std::optional(turns_.Oldest(network)) : std::nullopt;
  }

 private:
  Clock::duration apart_ = kLeastApart;
  Clock::time_point empty_;
  NetworkTurns turns_;
};

}  // namespace quire
