#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "coordinator/cluster/group/worker_group.h"
#include "coordinator/core/engine.h"

namespace quire {

/// A call on its way to the engine, and what else may become of it there. All of it runs on the engine's thread.
struct Arrival {
  std::function<void(Engine&)> submit;
  /// Ends the call without the engine: an HTTP status and the reason.
  std::function<void(int status, const std::string& reason)> refuse;
  /// Whether nobody waits for the answer any more.
  std::function<bool()> abandoned;
};

/// Holds back requests with a grammar until every rank has compiled it, so that no step waits for that, and nobody
/// else's token. Clients take turns, and few grammars are with the ranks at once: whoever comes is behind those few and
/// one of each other client. Ranks that take the place of others are asked anew. A request that waits for too long, or
/// whose grammar a rank cannot compile, is refused; none is let through before its grammar is ready.
/// Belongs to the engine's thread.
class GrammarGate {
 public:
  explicit GrammarGate(WorkerGroup& group);

  /// Runs one of the arrival's functions in a later round; none when it is abandoned meanwhile.
  void Pass(const std::string& client, const GrammarSource& source, Arrival arrival);
  /// In every round of the engine's loop. now: seconds on its clock.
  void Round(Engine& engine, double now);
  /// Lets everybody through: nobody will be ready any more, and the engine says so.
  void Open(Engine& engine);

 private:
  struct Call {
    Arrival arrival;
    double deadline = 0;  // 0: it came after the last round
  };
  struct Held {
    std::string client;
    GrammarSource source;
    std::vector<Call> calls;
    uint64_t ticket = 0;  // 0: the ranks are not asked
    EpochId epoch = 0;    // that was asked
    std::set<Rank> ready;
    std::string problem;  // of a rank
  };
  void DropCalls(Held& held, double now);
  void AskNext(EpochId epoch);
  std::deque<Held>::iterator NextInTurn();
  void ForgetTurns();

  WorkerGroup& group_;
  std::deque<Held> held_;  // as they came
  // Of clients with a grammar here: the last ticket of theirs, or what they had in its place when they came.
  std::map<std::string, uint64_t> turns_;
  uint64_t last_ticket_ = 0;
};

}  // namespace quire
