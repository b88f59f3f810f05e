#pragma once

#include <boost/asio/ip/address.hpp>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace quire {

/// Who has a place among a port's connections. When all are taken, a newcomer gets the place of a silent one, whose
/// client is to send something or to take something, so that nobody with many addresses keeps others out by connections
/// that cost nothing: of the network that has most of those the one that has been silent for longest, as long as they
/// are more than all that the newcomer's network has. Networks are those that take turns (network_turns.h). Not
/// thread-safe.
class ConnectionPlaces {
 public:
  class Place;

  /// most_per_address: of one IPv4 address or one /64 network of IPv6; loopback addresses have no such bound.
  ConnectionPlaces(int most, int most_per_address) : most_(most), most_per_address_(most_per_address) {}
  ConnectionPlaces(const ConnectionPlaces&) = delete;
  ConnectionPlaces& operator=(const ConnectionPlaces&) = delete;

  /// A place for a connection whose client is to send something; null: there is none. The place must not outlive this
  /// object. `give_way` ends the connection, which has no place any more; it is called once at the most.
  std::unique_ptr<Place> Take(const boost::asio::ip::address& address, std::function<void()> give_way);

  int taken() const { return taken_; }
  /// Of the network that has most silent connections: how many those are.
  size_t most_silent() const { return by_silence_.empty() ? 0 : by_silence_.rbegin()->first; }
  /// Ends the one of them that has been silent for longest; there is one. For where connections have places enough, and
  /// the process has no descriptors.
  void EndOneSilent();

 private:
  using Address = boost::asio::ip::address;
  using Silent = std::list<Place*>;  // the one that has been so for longest first
  struct Network {
    size_t taken = 0;
    Silent silent;
  };
  using Networks = std::map<Address, Network>;

  bool MakeRoomFor(const Address& network);
  void Count(Networks::const_iterator network, int change);  // of those that are silent; before it changes

  const int most_, most_per_address_;
  int taken_ = 0;
  std::map<Address, int> by_address_;  // loopback excepted
  Networks networks_;
  std::set<std::pair<size_t, Address>> by_silence_;  // networks by how many of theirs are silent
};

/// One connection's.
class ConnectionPlaces::Place {
 public:
  Place(ConnectionPlaces& places, const boost::asio::ip::address& address, std::function<void()> give_way);
  ~Place() { Leave(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  /// The client is to send something, a hello, a request, the rest of one; or to take more of its answer.
  void AwaitClient();
  /// It has done so: nobody else gets the place until it is waited for again.
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
  Silent::iterator among_silent_;  // as long as it is
};

}  // namespace quire
