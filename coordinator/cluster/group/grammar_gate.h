#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cluster/group/arrival.h"
#include "coordinator/cluster/group/worker_group.h"
#include "coordinator/core/engine.h"

namespace quire {

/// Holds back requests with a grammar until every rank has compiled it, so that no step waits for that, and nobody
/// else's token. Ranks keep a grammar as long as requests with it wait or run, and afterwards while there is room.
/// Clients take turns, and one grammar is on its way to the ranks at a time: whoever comes is behind that and one of
/// each other client. A client's grammars take at most half of what those of others leave, and an equal part of the
/// room in any case: requests of whoever has more than that leave the engine, and wait here again. When other ranks
/// come, all requests with a grammar that the engine has do so: the others go on at once. A request that waits for too
/// long, or whose grammar a rank cannot compile, is refused; none is let through before its grammar is ready. Belongs
/// to the engine's thread.
class GrammarGate {
 public:
  /// Room on a rank, and what a grammar takes at least.
  static constexpr uint64_t kRoom = 128 << 20, kLeastBytes = 256 << 10;

  explicit GrammarGate(WorkerGroup& group) : group_(group) {}

  /// Runs one of the arrival's functions in a later round; none when it is abandoned meanwhile.
  void Pass(const std::string& client, const GrammarSource& source, Arrival arrival);
  /// A rank has compiled a grammar that it was asked for, or cannot.
  void OnReady(Rank rank, const GrammarReady& report);
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
    GrammarDigest digest;
    std::vector<Call> calls;
    uint64_t ticket = 0;  // 0: the ranks are not asked
    std::set<Rank> ready;
    uint64_t bytes = 0;   // 0: not known yet
    std::string problem;  // of a rank
  };
  /// What the ranks keep.
  struct Kept {
    std::string client;  // that brought it
    GrammarDigest digest;
    uint64_t ticket = 0, bytes = 0;
    std::vector<RequestId> requests;  // that were let through, as far as the engine has them
  };
  /// Bytes of the ranks' room that requests need.
  struct Use {
    std::map<std::string_view, uint64_t> by_client;
    uint64_t total = 0;
  };
  void DropCalls(Held& held, double now);
  void AskNext();
  std::deque<Held>::iterator NextInTurn();
  void ForgetTurns();
  void BeginAnew(Engine& engine);
  void TakeBack(const std::vector<RequestId>& requests, Engine& engine);
  void EndCalls(const Engine& engine);
  Use UseOfRoom() const;
  static bool MayHaveRoom(const Held& held, const Use& use);
  bool MakeRoomFor(const Held& held, std::vector<RequestId>& given_way);
  bool UseKept(const Held& held);
  void LetThrough(Held& held, Engine& engine);
  void Tell(uint64_t ticket, const GrammarSource& source);

  WorkerGroup& group_;
  EpochId epoch_ = 0;      // of the ranks that were asked
  std::deque<Held> held_;  // as they came
  std::list<Kept> kept_;   // the one that was asked for last is first
  std::map<GrammarDigest, std::list<Kept>::iterator> kept_by_digest_;
  // By client with a grammar here: the last ticket of theirs, or what they had in its place when they came.
  std::map<std::string, uint64_t> turns_;
  uint64_t last_ticket_ = 0;
};

}  // namespace quire
