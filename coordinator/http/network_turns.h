#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <set>

namespace quire {

/// A queue of tickets in which networks take turns for the I/O thread. A network's first ticket waits for at most
/// one ticket of each other network, however many tickets they have. Tickets are ascending numbers. The class is not
/// thread-safe.
class NetworkTurns {
 public:
  using Ticket = uint64_t;

  void Wait(Ticket ticket, const boost::asio::ip::address& network);
  /// Removes the ticket from the queue, if the queue has it.
  void Withdraw(Ticket ticket, const boost::asio::ip::address& network);
  bool waiting() const { return !turns_.empty(); }
  /// Returns the number of the network's tickets in the queue.
  size_t NumWaiting(const boost::asio::ip::address& network) const;
  /// Returns the network's ticket that has waited longest. The network must have a ticket in the queue.
  Ticket Oldest(const boost::asio::ip::address& network) const { return *waiting_.at(network).tickets.begin(); }
  /// Takes the next ticket out of the queue. The queue must not be empty.
  Ticket Next();

 private:
  using Turns = std::list<boost::asio::ip::address>;
  struct Waiting {
    Turns::iterator turn;
    std::set<Ticket> tickets;  // ascending, and so in the order of arrival
  };

  Turns turns_;  // the networks that wait, the next one first
  std::map<boost::asio::ip::address, Waiting> waiting_;
};

/// Returns the block of addresses that one host may own: an IPv4 address itself, or the /64 network of an IPv6 address.
boost::asio::ip::address NetworkOf(const boost::asio::ip::address& address);

/// Returns the block of addresses that one customer of a provider may own. The connections of a block take turns as
/// one: an IPv4 address itself, or the first 48 bits of an IPv6 address. All loopback addresses are one block.
boost::asio::ip::address TurnOf(const boost::asio::ip::address& address);

}  // namespace quire
