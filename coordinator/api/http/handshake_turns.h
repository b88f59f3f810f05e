#pragma once

#include <functional>
#include <list>
#include <memory>

#include "coordinator/api/http/handshake_pace.h"
#include "coordinator/api/http/ticket_calls.h"

namespace quire {

/// Where a port's connections wait for the turn of their handshake (HandshakePace). One thread: the I/O thread.
class HandshakeTurns {
 public:
  explicit HandshakeTurns(const boost::asio::any_io_executor& executor) : calls_(executor), tick_(executor) {}
  HandshakeTurns(const HandshakeTurns&) = delete;
  HandshakeTurns& operator=(const HandshakeTurns&) = delete;

  /// What each handshake takes of the thread from now on.
  void Cost(std::chrono::nanoseconds cost) { pace_.Cost(cost); }
  using Ticket = TicketCalls::Ticket;
  Ticket NewTicket() { return calls_.NewTicket(); }
  /// Until the turn of a handshake with this address, or until it leaves the line. Every ticket waits once.
  boost::asio::awaitable<void> Await(Ticket ticket, boost::asio::ip::address address);
  /// The ticket, if it waits, is called without a turn.
  void Leave(Ticket ticket, const boost::asio::ip::address& address);

  /// Of handshakes that have begun and are not over. Each holds 0.1 to 0.25 MB and lasts a few round trips, or as long
  /// as a client likes: when one more begins, the oldest gives way.
  static constexpr size_t kMostOpen = 512;
  /// A handshake is open for as long as this lives.
  using Open = std::shared_ptr<void>;
  /// One begins. `give_way` ends it; it is called once at the most, and not after the end of what is returned.
  Open Enter(std::function<void()> give_way);

 private:
  static constexpr int kInOnePass = 8;  // begin between two looks at all sockets, however many are due by now

  void AwaitNext();
  void BeginThoseWhoMay();

  TicketCalls calls_;
  boost::asio::steady_timer tick_;
  HandshakePace pace_;
  std::list<std::function<void()>> open_;  // the oldest first
};

}  // namespace quire
