#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>

#include "coordinator/api/http/network_turns.h"

namespace quire {

/// Where a port's requests wait once their heads are there. Between two looks at all sockets only a few are begun: a
/// look is soon again, however many connections say requests as fast as they can, so that nobody else's bytes wait for
/// them; and networks take turns. One thread: the I/O thread.
class RequestTurns {
 public:
  explicit RequestTurns(const boost::asio::any_io_executor& executor) : executor_(executor), pass_(executor) {}
  RequestTurns(const RequestTurns&) = delete;
  RequestTurns& operator=(const RequestTurns&) = delete;

  /// Until the turn of a request from this address.
  boost::asio::awaitable<void> Await(boost::asio::ip::address address);

 private:
  static constexpr int kInOnePass = 16;  // a request that is refused takes some 0.1 ms

  void AwaitNextPass();
  void BeginThoseWhoMay();

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer pass_;  // over at once: timers are looked at when the sockets are
  bool awaits_pass_ = false;
  int left_ = kInOnePass;  // that may still be begun in this pass
  NetworkTurns turns_;
  NetworkTurns::Ticket last_ = 0;
  std::map<NetworkTurns::Ticket, boost::asio::steady_timer*> waiting_;  // cancelled when the turn has come
};

}  // namespace quire
