#pragma once

#include <boost/asio/ip/address.hpp>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace quire {

/// Limits a port's connections: at most `most` in all, and `most_per_address` per address. Each connection has a place.
/// A connection is silent while it waits for its client to send or to read something. When all places are taken, a
/// newcomer takes the place of the longest silent connection in the network with the most silent connections, if that
/// network has more silent connections than the newcomer's network would have connections with the newcomer. So a
/// client with many addresses cannot shut others out with idle connections. A network is what TurnOf() returns
/// (network_turns.h). The class is not thread-safe.
class ConnectionPlaces {
 public:
  class Place;

  /// most_per_address bounds each IPv4 address and each /64 network of IPv6. Loopback addresses have no such bound.
  ConnectionPlaces(int most, int most_per_address) : most_(most), most_per_address_(most_per_address) {}
  ConnectionPlaces(const ConnectionPlaces&) = delete;
  ConnectionPlaces& operator=(const ConnectionPlaces&) = delete;

  /// Returns a place, which is silent at first. Returns null when the address has most_per_address places already, or
  /// when all places are taken and none can be taken over. This object must outlive the place. `give_way` must end the
  /// connection; it is called at most once, when the connection loses its place.
  std::unique_ptr<Place> Take(const boost::asio::ip::address& address, std::function<void()> give_way);

  int taken() const { return taken_; }
  /// Returns the number of silent connections of the network that has most of them.
  size_t most_silent() const { return by_silence_.empty() ? 0 : by_silence_.rbegin()->first; }
  /// Ends the longest silent connection of the network with the most silent connections; there must be one. Called when
  /// the port has free places, but the process has no free file descriptor.
  void EndOneSilent();

 private:
  using Address = boost::asio::ip::address;
  using Silent = std::list<Place*>;  // the longest silent first
  struct Network {
    size_t taken = 0;
    Silent silent;
  };
  using Networks = std::map<Address, Network>;

  bool MakeRoomFor(const Address& network);
  void Count(Networks::const_iterator network, int change);  // call before the network's `silent` changes

  const int most_, most_per_address_;
  int taken_ = 0;
  std::map<Address, int> by_address_;  // loopback excepted
  Networks networks_;
  std::set<std::pair<size_t, Address>> by_silence_;  // (number of silent connections, network)
};

/// The place of one connection.
class ConnectionPlaces::Place {
 public:
  Place(ConnectionPlaces& places, const boost::asio::ip::address& address, std::function<void()> give_way);
  ~Place() { Leave(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  /// Marks the connection as silent. Call it when the client has to send a hello or a part of a request, or to read
  /// more of its answer.
  void AwaitClient();
  /// Marks the connection as not silent: no other connection gets its place before the next AwaitClient(). Call it when
  /// the client has sent or read something.
  void ServeClient();
  bool silent() const { return silent_; }

 private:
  friend class ConnectionPlaces;

  void Leave();

  ConnectionPlaces& places_;
  const boost::asio::ip::address address_;
  const std::function<void()> give_way_;
  bool left_ = false, silent_ = false;
  Networks::iterator network_;
  Silent::iterator among_silent_;  // valid while silent_
};

}  // namespace quire
