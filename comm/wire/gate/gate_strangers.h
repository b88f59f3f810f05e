#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/base/descriptor.h"
#include "comm/wire/gate/gate_sockets.h"

namespace quire {

/// A connection whose peer has not been authenticated yet. The peer's CURVE handshake goes through the gate, message by
/// message.
struct Stranger {
  /// The handshake message that comes next, and its sender.
  enum class Awaits {
    kGreeting,       // the peer's greeting is expected
    kHello,          // the peer's HELLO is expected
    kTurn,           // no bytes expected: the HELLO waits until it is checked
    kInnerGreeting,  // the ZeroMQ socket's greeting is expected
    kWelcome,        // the ZeroMQ socket's WELCOME is expected
    kInitiate,       // the peer's INITIATE is expected
    kVerdict,        // READY or ERROR of the ZeroMQ socket is expected
  };
  using Clock = std::chrono::steady_clock;

  uint64_t number = 0;
  PeerName name;
  Descriptor outer, inner;  // sockets to the peer and, once connected, to the ZeroMQ socket
  Clock::time_point deadline;
  Awaits awaits = Awaits::kGreeting;
  bool knows_key = false;           // true once the peer's HELLO was decrypted: the peer knows this server's public key
  std::vector<uint8_t> said, word;  // the peer's earlier messages; the received part of the current message
};

/// The unauthenticated connections at a port, limited in all and for each network. A new connection is always accepted.
/// If its network is full, the network's oldest connection is dropped. If the port is full, the oldest connection of
/// the neighbourhood with the most connections is dropped, if possible not one from a network from which a peer was
/// accepted before. Connections whose peers know the server's public key are dropped last, unless they outnumber the
/// others. So a flood ends no handshake, and copies of one HELLO cannot fill the port. Networks take turns for
/// expensive work (TakeTurn), and every second turn is for networks from which a peer was accepted before, so workers
/// that start again do not wait behind a flood. Belongs to one thread.
class Strangers {
 public:
  static constexpr size_t kMost = 256, kMostOfNetwork = 64, kMostAccepted = 1024;

  /// True when both the port and `network` have room for one more connection.
  bool HasRoom(const std::string& network) const;
  /// Returns the connection to drop for a new one from this network; null when there are no connections.
  Stranger* WhoGivesWay(const std::string& network);
  /// Adds a connection. Requires HasRoom(name.network).
  Stranger& Add(Descriptor outer, PeerName name, Stranger::Clock::time_point deadline);
  /// Returns the connection with this number; null when it is gone.
  Stranger* Find(uint64_t number);
  void Remove(uint64_t number);
  /// Records that the connection's HELLO was decrypted, so that its peer knows the server's public key.
  void KnowsKey(Stranger& stranger);
  /// Records that a peer from this network was accepted. Only the first kMostAccepted networks are recorded.
  void Accepted(const std::string& network);
  /// Returns the oldest connection, which has the first deadline; null when there is none.
  Stranger* Oldest();
  size_t size() const { return strangers_.size(); }

  /// Appends the connection to its network's queue for the expensive work of handshakes.
  void AwaitTurn(const Stranger& stranger);
  /// Takes the next connection out of the queues and returns it; null when none waits.
  Stranger* NextTurn();
  bool anybody_waits() const { return !turns_[0].empty() || !turns_[1].empty(); }

 private:
  struct Count {
    size_t of[2] = {0, 0};  // [0]: peers that have not shown that they know the key; [1]: other peers
    size_t all() const { return of[0] + of[1]; }
  };
  using Counts = std::map<std::string, Count>;

  void Leave(Counts& counts, const std::string& place, bool knows_key);
  Stranger* OldestOfLargest(const std::function<bool(const Stranger&)>& may_go, bool knows_key);

  std::map<uint64_t, Stranger> strangers_;  // keyed by a number that grows with each connection
  Count all_;
  Counts by_network_, by_neighbourhood_;
  std::map<std::string, std::deque<uint64_t>> lines_;  // each network's queue; may hold numbers of closed connections
  std::list<std::string> turns_[2];  // networks with a queue, the first is next; [1]: those with accepted peers
  bool accepted_next_ = true;        // true: networks with accepted peers have the next turn
  std::set<std::string> accepted_;
  uint64_t last_number_ = 0;
};

}  // namespace quire
