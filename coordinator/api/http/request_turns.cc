#include "coordinator/api/http/request_turns.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

// House rule for coroutines: see http_server.cc.

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

}  // namespace

asio::awaitable<void> RequestTurns::Await(asio::ip::address address) {
  if (!awaits_pass_) AwaitNextPass();
  if (left_ > 0) {  // then nobody waits
    --left_;
    co_return;
  }
  const NetworkTurns::Ticket ticket = ++last_;
  turns_.Wait(ticket, TurnOf(address));
  asio::steady_timer turn(executor_, asio::steady_timer::time_point::max());
  waiting_[ticket] = &turn;
  co_await turn.async_wait(kToken);
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
  for (left_ = kInOnePass; left_ > 0 && turns_.waiting(); --left_) waiting_.extract(turns_.Next()).mapped()->cancel();
  if (left_ < kInOnePass) AwaitNextPass();
}

}  // namespace quire
