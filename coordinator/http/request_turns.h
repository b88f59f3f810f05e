#pragma once

#include "coordinator/http/ticket_calls.h"

namespace quire {

/// The queue of a port's requests whose heads have arrived, and of requests that arrive in many small reads. Between
/// two polls of all sockets, at most kInOnePass requests leave the queue. So the next poll comes soon even when many
/// clients send requests as fast as they can. Networks take turns. Only the I/O thread uses this class.
class RequestTurns {
 public:
  explicit RequestTurns(const boost::asio::any_io_executor& executor) : calls_(executor), pass_(executor) {}
  RequestTurns(const RequestTurns&) = delete;
  RequestTurns& operator=(const RequestTurns&) = delete;

  /// Waits until a request from this address may leave the queue.
  boost::asio::awaitable<void> Await(boost::asio::ip::address address);

 private:
  static constexpr int kInOnePass = 16;  // requests between two polls; refusing one takes about 0.1 ms

  void AwaitNextPass();
  void BeginThoseWhoMay();

  TicketCalls calls_;
  boost::asio::steady_timer pass_;  // expires immediately: Asio checks timers when it polls the sockets
  bool awaits_pass_ = false;
  int left_ = kInOnePass;  // requests that may still leave the queue before the next poll of the sockets
  NetworkTurns turns_;
};

}  // namespace quire
