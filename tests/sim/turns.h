#pragma once

#include <map>
#include <string>
#include <vector>

#include "coordinator/core/request.h"

namespace quire {
class WaitingQueue;
}

namespace quire::sim {

/// Whose turn it is, worked out a second time from README's rules: who waits, and what every client was served.
/// A client's own requests have an order; of several clients, see Watcher for who may be passed over.
class Turns {
 public:
  using Requests = std::map<RequestId, std::unique_ptr<Request>>;

  /// It comes for the first time, or from another engine. One that was admitted there waits with those that gave way.
  void Joined(const Request& request);
  void Left(RequestId id) { entries_.at(id).state = State::kGone; }
  void Preempted(RequestId id) { entries_.at(id).state = State::kPreempted; }
  /// Whoever ran waits again.
  void GroupLost();
  /// Throw Failure unless the request is the next of its client. `requests`: what the engine says of tokens from the
  /// cache.
  void Admitted(RequestId id, const Requests& requests);
  void Held(RequestId id, const Requests& requests);
  /// The next requests of other clients whose turn was before that of this one. Before Admitted.
  std::vector<RequestId> Before(RequestId id) const;
  /// Clients of which somebody waits or runs.
  int NumActive() const;
  bool Runs(const std::string& client) const;
  bool IsAlone(RequestId id) const { return Active(entries_.at(id).client) == 1; }
  const std::string& ClientOf(RequestId id) const { return entries_.at(id).client; }
  void Drew(RequestId id) { served_[entries_.at(id).client] += 2; }
  /// Tokens that came from the cache are not charged.
  void NoteCached(const Requests& requests, RequestId but_not = 0);

  /// Throws Failure unless the queue's accounts say the same.
  void Compare(const WaitingQueue& queue) const;

 private:
  enum class State { kWaiting, kPreempted, kRunning, kGone };
  struct Entry {
    std::string client;
    double arrival = 0, rank = 0;
    int prompt = 0, cached = 0;
    bool charged = false;
    State state = State::kWaiting;
  };
  int Active(const std::string& client) const;
  std::map<std::string, RequestId> Heads() const;

  std::map<RequestId, Entry> entries_;
  std::map<std::string, double> served_;
};

}  // namespace quire::sim
