#pragma once

#include <map>
#include <string>
#include <vector>

#include "coordinator/core/request.h"

namespace quire {
class WaitingQueue;
}

namespace quire::sim {

/// Computes the order of admission a second time, by the rules of coordinator/README.md (Fairness), from the waiting
/// requests and the number of tokens that every client was served. A client's own requests have a fixed order. Watcher
/// checks which clients may be passed over.
class Turns {
 public:
  using Requests = std::map<RequestId, std::unique_ptr<Request>>;

  /// Records a request that is new or comes from another engine. If it was admitted in that engine, it counts as
  /// preempted.
  void Joined(const Request& request);
  void Left(RequestId id) { entries_.at(id).state = State::kGone; }
  /// Records a request that leaves the queue for now, because other kinds of requests go first or the workers lack its
  /// adapter. Joined follows when the request returns to the queue.
  void SetAside(const Request& request) {
    entries_[request.id].client = request.client;
    Left(request.id);
  }
  void Preempted(RequestId id) { entries_.at(id).state = State::kPreempted; }
  /// Puts all running requests back into the queue, after a loss of the group.
  void GroupLost();
  /// Admitted and Held throw Failure unless the request is its client's next one. `requests` has all present requests,
  /// which show how many of their tokens came from the cache. `overtakes`: the request may go before its client's next
  /// one.
  void Admitted(RequestId id, const Requests& requests, bool overtakes = false);
  void Held(RequestId id, const Requests& requests);
  /// Returns the next requests of other clients that come before this one. Call this before Admitted.
  std::vector<RequestId> Before(RequestId id) const;
  /// Returns the next request of the request's client.
  RequestId HeadOfClient(RequestId id) const { return Heads().at(entries_.at(id).client); }
  /// Returns the next requests of all other clients.
  std::vector<RequestId> HeadsOfOthers(RequestId id) const;
  /// Returns the number of clients with a waiting or running request.
  int NumActive() const;
  bool Runs(const std::string& client) const;
  bool IsAlone(RequestId id) const { return Active(entries_.at(id).client) == 1; }
  const std::string& ClientOf(RequestId id) const { return entries_.at(id).client; }
  void Drew(RequestId id, int tokens) { served_[entries_.at(id).client] += 2 * tokens; }
  /// Takes back the charge for tokens that came from the cache, for all requests except `but_not` (0: for all).
  void NoteCached(const Requests& requests, RequestId but_not = 0);

  /// Throws Failure unless the queue has the same number of active requests for every client, and the same amount of
  /// service (tokens, of which sampled ones count twice).
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
