#pragma once

#include <map>
#include <set>

#include "coordinator/core/engine.h"
#include "tests/sim/oracle.h"

namespace quire::sim {

/// The promise to a client of which nothing waits or runs: the first token of its short request is drawn by one of the
/// next kMostPlans plans, whatever the others send. Plans that are outstanding when it comes do not count; nor do plans
/// that are made while the promise's conditions do not hold (IsPromised).
class Newcomers {
 public:
  static constexpr int kMostPlans = 2;

  explicit Newcomers(const Engine& engine) : engine_(engine) {}

  /// A request of a client that has no other came.
  void Came(RequestId id, const Ask& ask) {
    if (ask.n == 1 && !ask.beams) waiting_[id] = {static_cast<int>(ask.prompt.size()), 0};
  }
  void Left(RequestId id) { waiting_.erase(id); }
  void GroupLost() { waiting_.clear(); }

  /// A plan was made that draws for these. Throws Failure when a newcomer waited for too many. `others_may_give_way`:
  /// nobody is left in peace because it gave way a moment ago, and nobody is suspected of killing workers.
  void Planned(const std::set<RequestId>& draws, int num_clients, bool others_may_give_way);

  int64_t num_promised = 0, num_prompt = 0;  // newcomers; of those whose first token the very first plan drew

 private:
  struct Wait {
    int prompt = 0, plans = 0;
  };
  bool IsPromised(const Wait& wait, int num_clients) const;

  const Engine& engine_;
  std::map<RequestId, Wait> waiting_;
};

}  // namespace quire::sim
