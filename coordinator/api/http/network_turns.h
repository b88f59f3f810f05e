#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <set>

namespace quire {

/// Who is next of those that wait for the thread that moves everybody's bytes. Networks take turns: however many
/// connections others have waiting, a network's first one is behind one of each. Tickets are ascending numbers. Not
/// thread-safe.
class NetworkTurns {
 public:
  using Ticket = uint64_t;

  void Wait(Ticket ticket, const boost::asio::ip::address& network);
  /// The ticket, if it waits, does so no more.
  void Withdraw(Ticket ticket, const boost::asio::ip::address& network);
  bool waiting() const { return !turns_.empty(); }
  /// The ticket whose turn it is. Somebody must be waiting.
  Ticket Next();

 private:
  using Turns = std::list<boost::asio::ip::address>;
  struct Waiting {
    Turns::iterator turn;
    std::set<Ticket> tickets;  // in the order in which they came
  };

  Turns turns_;  // of the networks that wait, the next one first
  std::map<boost::asio::ip::address, Waiting> waiting_;
};

/// Addresses that one host may well have all of: an IPv4 address as it is, or the /64 network of an IPv6 address.
boost::asio::ip::address NetworkOf(const boost::asio::ip::address& address);

/// Addresses that one customer of a provider may well have all of: they take turns as one. An IPv4 address as it is,
/// and the first 48 bits of an IPv6 address; loopback addresses are one.
boost::asio::ip::address TurnOf(const boost::asio::ip::address& address);

}  // namespace quire
