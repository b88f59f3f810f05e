#include "coordinator/http/network_turns.h"

#include <algorithm>

namespace quire {

namespace {

boost::asio::ip::address PrefixOf(const boost::asio::ip::address_v6& address, int bytes) {
  auto whole = address.to_bytes();
  std::fill(whole.begin() + bytes, whole.end(), uint8_t{0});
  return boost::asio::ip::address_v6(whole);
}

}  // namespace

void NetworkTurns::Wait(Ticket ticket, const boost::asio::ip::address& network) {
  const auto [waiting, first] = waiting_.try_emplace(network);
  if (first) waiting->second.turn = turns_.insert(turns_.end(), network);
  waiting->second.tickets.insert(ticket);
}

void NetworkTurns::Withdraw(Ticket ticket, const boost::asio::ip::address& network) {
  const auto waiting = waiting_.find(network);
  if (waiting == waiting_.end() || waiting->second.tickets.erase(ticket) == 0) return;
  if (!waiting->second.tickets.empty()) return;
  turns_.erase(waiting->second.turn);
  waiting_.erase(waiting);
}

size_t NetworkTurns::NumWaiting(const boost::asio::ip::address& network) const {
  const auto waiting = waiting_.find(network);
  return waiting == waiting_.end() ? 0 : waiting->second.tickets.size();
}

NetworkTurns::Ticket NetworkTurns::Next() {
  const auto waiting = waiting_.find(turns_.front());
  std::set<Ticket>& tickets = waiting->second.tickets;
  const Ticket ticket = tickets.extract(tickets.begin()).value();
  if (tickets.empty()) {
    turns_.pop_front();
    waiting_.erase(waiting);
  } else {
    turns_.splice(turns_.end(), turns_, turns_.begin());
  }
  return ticket;
}

boost::asio::ip::address NetworkOf(const boost::asio::ip::address& address) {
  if (!address.is_v6() || address.is_loopback()) return address;
  const boost::asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6);
  return PrefixOf(v6, 8);
}

boost::asio::ip::address TurnOf(const boost::asio::ip::address& address) {
  if (address.is_loopback()) return boost::asio::ip::address_v4::loopback();
  if (!address.is_v6()) return address;
  const boost::asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return TurnOf(boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6));
  return PrefixOf(v6, 6);
}

}  // namespace quire
