#include "coordinator/http/handshake_turns.h"

#include <algorithm>
#include <utility>

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;
using Clock = HandshakePace::Clock;

asio::awaitable<bool> HandshakeTurns::Await(Ticket ticket, asio::ip::address address, std::function<bool()> ended) {
  const bool others_wait = pace_.waiting();
  pace_.Wait(ticket, TurnOf(address));
  if (const auto now = Clock::now(); !others_wait && pace_.Next(now) <= now) {
    pace_.Begin(now);
    co_return true;
  }
  if (!others_wait) AwaitNext();
  ended_[ticket] = std::move(ended);
  if (const auto surplus = pace_.Surplus(TurnOf(address))) Leave(*surplus, address);
  const bool may = co_await calls_.Await(ticket);
  ended_.erase(ticket);
  co_return may;
}

void HandshakeTurns::Leave(Ticket ticket, const asio::ip::address& address) {
  if (!calls_.IsWaiting(ticket)) return;
  pace_.Withdraw(ticket, TurnOf(address));
  calls_.Call(ticket, false);
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
  for (int begun = 0, left = 0; begun < kInOnePass && left < kLeftInOnePass;) {
    if (!pace_.waiting() || pace_.Next(now) > now) break;
    const Ticket ticket = pace_.Take();
    const bool ended = ended_.at(ticket)();
    if (!ended) pace_.Charge(now);
    ++(ended ? left : begun);
    calls_.Call(ticket, !ended);
  }
  if (pace_.waiting()) AwaitNext();
}

}  // namespace quire
