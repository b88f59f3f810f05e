#pragma once

#include "coordinator/api/http/ticket_calls.h"

namespace quire {

/// Where a port's requests wait once their heads are there. Between two looks at all sockets only a few are begun: a
/// look is soon again, however many connections say requests as fast as they can, so that nobody else's bytes wait for
/// them; and networks take turns. One thread: the I/O thread.
class RequestTurns {
 public:
  explicit RequestTurns(const boost::asio::any_io_executor& executor) : calls_(executor), pass_(executor) {}
  RequestTurns(const RequestTurns&) = delete;
  RequestTurns& operator=(const RequestTurns&) = delete;

  /// Until the turn of a request from this address.
  boost::asio::awaitable<void> Await(boost::asio::ip::address address);

 private:
  static constexpr int kInOnePass = 16;  // a request that is refused takes some 0.1 ms

  void AwaitNextPass();
  void BeginThoseWhoMay();

  TicketCalls calls_;
  boost::asio::steady_timer pass_;  // over at once: timers are looked at when the sockets are
  bool awaits_pass_ = false;
  int left_ = kInOnePass;  // that may still be begun in this pass
  NetworkTurns turns_;
};

}  // namespace quire
