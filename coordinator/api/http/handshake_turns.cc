#include "coordinator/api/http/handshake_turns.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

// House rule for coroutines: see http_server.cc.

namespace quire {

namespace asio = boost::asio;
using Clock = HandshakePace::Clock;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

}  // namespace

asio::awaitable<void> HandshakeTurns::Await(asio::ip::address address) {
  const HandshakePace::Ticket ticket = ++last_;
  const bool others_wait = pace_.waiting();
  pace_.Wait(ticket, TurnOf(address));
  if (const auto now = Clock::now(); !others_wait && pace_.Next(now) <= now) {
    pace_.Begin(now);
    co_return;
  }
  asio::steady_timer turn(executor_, Clock::time_point::max());
  waiting_[ticket] = &turn;
  if (!others_wait) AwaitNext();
  co_await turn.async_wait(kToken);
}

void HandshakeTurns::AwaitNext() {
  tick_.expires_at(pace_.Next(Clock::now()));
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) BeginThoseWhoMay();
  });
}

void HandshakeTurns::BeginThoseWhoMay() {
  const auto now = Clock::now();
  for (int i = 0; i < kInOnePass && pace_.waiting() && pace_.Next(now) <= now; ++i)
    waiting_.extract(pace_.Begin(now)).mapped()->cancel();
  if (pace_.waiting()) AwaitNext();
}

}  // namespace quire
