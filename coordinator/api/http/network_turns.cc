#include "coordinator/api/http/network_turns.h"

#include <algorithm>

namespace quire {

void NetworkTurns::Wait(Ticket ticket, const boost::asio::ip::address& network) {
  std::deque<Ticket>& others = waiting_[network];
  if (others.empty()) turns_.push_back(network);
  others.push_back(ticket);
}

NetworkTurns::Ticket NetworkTurns::Next() {
  const boost::asio::ip::address network = turns_.front();
  turns_.pop_front();
  const auto tickets = waiting_.find(network);
  const Ticket ticket = tickets->second.front();
  tickets->second.pop_front();
  if (tickets->second.empty()) {
    waiting_.erase(tickets);
  } else {
    turns_.push_back(network);
  }
  return ticket;
}

boost::asio::ip::address TurnOf(const boost::asio::ip::address& address) {
  if (address.is_loopback()) return boost::asio::ip::address_v4::loopback();
  if (!address.is_v6()) return address;
  const boost::asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return TurnOf(boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6));
  boost::asio::ip::address_v6::bytes_type bytes = v6.to_bytes();
  std::fill(bytes.begin() + 6, bytes.end(), uint8_t{0});
  return boost::asio::ip::address_v6(bytes);
}

}  // namespace quire
