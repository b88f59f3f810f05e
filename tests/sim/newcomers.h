#pragma once

#include <map>
#include <set>

#include "coordinator/core/engine/engine.h"
#include "tests/sim/oracle.h"

namespace quire::sim {

/// Checks the promise to a client without waiting or running requests: one of the next two plans, or of the next S + 1
/// plans in a pipeline of S stages, samples the first token of the client's short request, whatever other clients send.
/// Plans that were outstanding when the request came do not count, nor do plans made while the promise's conditions do
/// not hold (IsPromised).
class Newcomers {
 public:
  explicit Newcomers(const Engine& engine) : engine_(engine) {}

  /// Records a request of a client that has no other request.
  void Came(RequestId id, const Ask& ask) {
    if (ask.n == 1 && !ask.beams) waiting_[id] = {static_cast<int>(ask.prompt.size()), 0};
  }
  void Left(RequestId id) { waiting_.erase(id); }
  void GroupLost() { waiting_.clear(); }

  /// Checks a plan that samples tokens for the requests in `draws`. Throws Failure when a new client's request has
  /// waited for too many plans. `others_may_give_way`: no running request is protected from being preempted for another
  /// client again, and no request is suspected of killing workers.
  void Planned(const std::set<RequestId>& draws, int num_clients, bool others_may_give_way);

  // Numbers of requests of new clients: those that got their first token in time, and those that got it with the first
  // plan.
  int64_t num_promised = 0, num_prompt = 0;

 private:
  struct Wait {
    int prompt = 0, plans = 0;
  };
  bool IsPromised(const Wait& wait, int num_clients) const;

  const Engine& engine_;
  std::map<RequestId, Wait> waiting_;
};

}  // namespace quire::sim
