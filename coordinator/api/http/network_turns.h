#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <deque>
#include <map>

namespace quire {

/// Who is next of those that wait for the thread that moves everybody's bytes. Networks take turns: however many
/// connections others have waiting, a network's first one is behind one of each. Not thread-safe.
class NetworkTurns {
 public:
  using Ticket = uint64_t;

  void Wait(Ticket ticket, const boost::asio::ip::address& network);
  bool waiting() const { return !turns_.empty(); }
  /// The ticket whose turn it is. Somebody must be waiting.
  Ticket Next();

 private:
  std::deque<boost::asio::ip::address> turns_;  // of the networks that wait, the next one first
  std::map<boost::asio::ip::address, std::deque<Ticket>> waiting_;
};

/// Addresses that one customer of a provider may well have all of: they take turns as one. An IPv4 address as it is,
/// and the first 48 bits of an IPv6 address; loopback addresses are one.
boost::asio::ip::address TurnOf(const boost::asio::ip::address& address);

}  // namespace quire
