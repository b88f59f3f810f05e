#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>

#include "coordinator/http/network_turns.h"

namespace quire {

/// A set of coroutines, each of which waits until its ticket is called. Only the I/O thread uses this class.
class TicketCalls {
 public:
  using Ticket = NetworkTurns::Ticket;

  explicit TicketCalls(const boost::asio::any_io_executor& executor) : executor_(executor) {}
  TicketCalls(const TicketCalls&) = delete;
  TicketCalls& operator=(const TicketCalls&) = delete;

  Ticket NewTicket() { return ++last_; }
  /// Waits until Call() is called with this ticket, and returns its `may`.
  boost::asio::awaitable<bool> Await(Ticket ticket);
  bool IsWaiting(Ticket ticket) const { return waiting_.contains(ticket); }
  /// Wakes the coroutine that waits with this ticket; there must be one. `may` is the result of its Await().
  void Call(Ticket ticket, bool may = true);

 private:
  boost::asio::any_io_executor executor_;
  Ticket last_ = 0;
  struct Waiter {
    boost::asio::steady_timer* timer;  // cancelled by Call()
    bool* may;
  };
  std::map<Ticket, Waiter> waiting_;
};

}  // namespace quire
