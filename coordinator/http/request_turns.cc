#include "coordinator/http/request_turns.h"

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

asio::awaitable<void> RequestTurns::Await(asio::ip::address address) {
  if (!awaits_pass_) AwaitNextPass();
  if (left_ > 0) {  // left_ > 0 only while no request waits
    --left_;
    co_return;
  }
  const NetworkTurns::Ticket ticket = calls_.NewTicket();
  turns_.Wait(ticket, TurnOf(address));
  co_await calls_.Await(ticket);
}

void RequestTurns::AwaitNextPass() {
  awaits_pass_ = true;
  pass_.expires_after(asio::steady_timer::duration::zero());
  pass_.async_wait([this](const boost::system::error_code& error) {
    if (!error) BeginThoseWhoMay();
  });
}

void RequestTurns::BeginThoseWhoMay() {
  awaits_pass_ = false;
  for (left_ = kInOnePass; left_ > 0 && turns_.waiting(); --left_) calls_.Call(turns_.Next());
  if (left_ < kInOnePass) AwaitNextPass();
}

}  // namespace quire
