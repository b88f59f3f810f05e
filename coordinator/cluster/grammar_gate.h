#pragma once

#include <deque>
#include <functional>
#include <set>

#include "coordinator/cluster/worker_group.h"
#include "coordinator/core/engine.h"

namespace quire {

/// Holds back requests with a grammar until every rank has compiled it, so that no step waits for that, and nobody
/// else's token. A courtesy: a rank that has not heard of a sequence's grammar compiles it when the sequence comes. So
/// whoever waits is let through when the ranks are others than those that were asked, and after a while in any case.
/// Belongs to the engine's thread.
class GrammarGate {
 public:
  explicit GrammarGate(WorkerGroup& group);

  /// Runs `then` in a later round, once the ranks are ready.
  void Pass(const GrammarSource& source, std::function<void(Engine&)> then);
  /// In every round of the engine's loop.
  void Round(Engine& engine);
  /// Lets everybody through: nobody will be ready any more.
  void Open(Engine& engine);

 private:
  struct Held {
    GrammarSource source;
    std::vector<std::function<void(Engine&)>> then;
    uint64_t ticket = 0;  // 0: the ranks are not asked yet
    EpochId epoch = 0;    // that was asked
    std::set<Rank> ready;
    double deadline = 0;
  };
  void Ask(Held& held, EpochId epoch);
  bool IsOver(const Held& held, EpochId epoch) const;

  WorkerGroup& group_;
  std::deque<Held> held_;
  uint64_t last_ticket_ = 0;
};

}  // namespace quire
