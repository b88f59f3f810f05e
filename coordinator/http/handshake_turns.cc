#include "coordinator/http/handshake_turns.h"

#include <algorithm>
#include <utility>

// g++ 12 miscompiles some co_await expressions. The coroutines here avoid them (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;
using Clock = HandshakePace::Clock;

asio::awaitable<void> HandshakeTurns::Await(Ticket ticket, asio::ip::address address) {
  const bool others_wait = pace_.waiting();
  pace_.Wait(ticket, TurnOf(address));
  if (const auto now = Clock::now(); !others_wait && pace_.Next(now) <= now) {
    pace_.Begin(now);
    co_return;
  }
  if (!others_wait) AwaitNext();
  co_await calls_.Await(ticket);
}

void HandshakeTurns::Leave(Ticket ticket, const asio::ip::address& address) {
  if (!calls_.IsWaiting(ticket)) return;
  pace_.Withdraw(ticket, TurnOf(address));
  calls_.Call(ticket);
}

HandshakeTurns::Open HandshakeTurns::Enter(std::function<void()> give_way) {
  if (open_.size() >= kMostOpen) {
    // Skip handshakes that were told to end and have not ended yet.
    const auto oldest = std::ranges::find_if(open_, [](const auto& one) { return one != nullptr; });
    if (oldest != open_.end()) std::exchange(*oldest, nullptr)();
  }
  const auto place = open_.insert(open_.end(), std::move(give_way));
  return {nullptr, [this, place](void*) { open_.erase(place); }};
}

void HandshakeTurns::AwaitNext() {
  tick_.expires_at(pace_.Next(Clock::now()));
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) BeginThoseWhoMay();
  });
}

void HandshakeTurns::BeginThoseWhoMay() {
  const auto now = Clock::now();
  for (int i = 0; i < kInOnePass && pace_.waiting() && pace_.Next(now) <= now; ++i) calls_.Call(pace_.Begin(now));
  if (pace_.waiting()) AwaitNext();
}

}  // namespace quire
