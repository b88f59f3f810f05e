#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "comm/base/descriptor.h"
#include "comm/wire/gate_sockets.h"

namespace quire {

/// A connection of somebody who has not shown a key yet.
struct Stranger {
  /// The word that comes next, and from whom.
  enum class Awaits {
    kGreeting,       // of the peer
    kHello,          // of the peer
    kTurn,           // nothing: its hello is looked at when its turn comes
    kInnerGreeting,  // of the socket behind
    kWelcome,        // of the socket behind
    kInitiate,       // of the peer
    kVerdict,        // of the socket behind
  };
  using Clock = std::chrono::steady_clock;

  uint64_t number = 0;
  PeerName name;
  Descriptor outer, inner;  // the peer's connection; the one to the socket behind, once there is any
  Clock::time_point deadline;
  Awaits awaits = Awaits::kGreeting;
  bool knows_key = false;           // its hello was opened: whoever made it knows this server's public key
  std::vector<uint8_t> said, word;  // the peer's words before this one; this word so far
};

/// The strangers at a port: a bounded number, of whom each network has a bounded part. A newcomer always finds room,
/// because the oldest gives way: of the newcomer's network when that has its part, else of all neighbourhoods that have
/// most. Strangers that have shown the server's key keep their places as long as they are no more than the others,
/// so that a flood ends no handshake, and copies of a hello do not fill the port. Networks take turns in what costs the
/// port time. Belongs to one thread.
class Strangers {
 public:
  static constexpr size_t kMost = 256, kMostOfNetwork = 64;

  /// True: `network` has room for one more.
  bool HasRoom(const std::string& network) const;
  /// Who gives way to a newcomer of this network; null when there is nobody.
  Stranger* WhoGivesWay(const std::string& network);
  /// Room must be there.
  Stranger& Add(Descriptor outer, PeerName name, Stranger::Clock::time_point deadline);
  /// Null: it is not here any more.
  Stranger* Find(uint64_t number);
  void Remove(uint64_t number);
  /// Its hello was opened.
  void KnowsKey(Stranger& stranger);
  /// The one that came first, whose deadline is the next; null when there is nobody.
  Stranger* Oldest();
  size_t size() const { return strangers_.size(); }

  /// From now on it stands in its network's line.
  void AwaitTurn(const Stranger& stranger);
  /// Who is next; null when nobody waits.
  Stranger* NextTurn();
  bool anybody_waits() const { return !turns_.empty(); }

 private:
  struct Count {
    size_t of[2] = {0, 0};  // those that have not shown the key, and those that have
    size_t all() const { return of[0] + of[1]; }
  };
  using Counts = std::map<std::string, Count>;

  void Leave(Counts& counts, const std::string& place, bool knows_key);

  std::map<uint64_t, Stranger> strangers_;  // numbers grow with time
  Count all_;
  Counts by_network_, by_neighbourhood_;
  std::map<std::string, std::deque<uint64_t>> lines_;  // may hold numbers of strangers that have gone
  std::list<std::string> turns_;                       // networks with a line; the first is next
  uint64_t last_number_ = 0;
};

}  // namespace quire
