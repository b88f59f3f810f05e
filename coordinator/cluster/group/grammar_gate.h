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
#include "coordinator/core/engine/engine.h"

namespace quire {

/// Holds requests with a grammar until every rank has compiled the grammar, so that no step waits for a compiler. Ranks
/// keep a grammar while requests with it wait or run, and afterwards while WorkerGroup::grammar_memory has room.
/// Clients take turns, and the ranks compile one grammar at a time, so a new client waits for the grammar that is being
/// compiled and at most one grammar of each other client. A client's grammars may take half of the memory that other
/// clients leave, and an equal share in any case. Requests of clients whose grammars take more leave the engine and
/// wait here again. When the ranks are replaced, all requests with a grammar leave the engine and wait here. The gate
/// refuses a request that waits too long, whose grammar a rank cannot compile, or whose grammar takes more than half of
/// the memory. Belongs to the engine's thread.
class GrammarGate {
 public:
  /// Each grammar counts as at least this many bytes.
  static constexpr uint64_t kLeastBytes = 256 << 10;

  explicit GrammarGate(WorkerGroup& group) : group_(group) {}

  /// Takes a call with a grammar. In a later round calls the arrival's `submit` or `refuse`, or neither if the arrival
  /// was abandoned meanwhile.
  void Pass(const std::string& client, const GrammarSource& source, Arrival arrival);
  /// Takes a rank's report that it has compiled a grammar, or cannot compile it.
  void OnReady(Rank rank, const GrammarReady& report);
  /// Called in every round of the engine's loop. `now`: seconds on the engine's clock.
  void Round(Engine& engine, double now);
  /// Submits all held calls, because the workers are given up; the engine will end them with an error.
  void Open(Engine& engine);

 private:
  struct Call {
    Arrival arrival;
    double deadline = 0;  // seconds on the engine's clock; 0: the call arrived after the last round
  };
  struct Held {
    std::string client;
    GrammarSource source;
    GrammarDigest digest;
    std::vector<Call> calls;
    uint64_t ticket = 0;  // number of the order to the ranks; 0: not sent yet
    std::set<Rank> ready;
    uint64_t bytes = 0;   // memory of the compiled grammar; 0: unknown
    std::string problem;  // a rank's error
  };
  /// A grammar that the ranks keep.
  struct Kept {
    std::string client;  // the client that sent the grammar
    GrammarDigest digest;
    uint64_t ticket = 0, bytes = 0;
    std::vector<RequestId> requests;  // requests that were submitted to the engine and are still there
  };
  /// The bytes that grammars of submitted requests take now, by client and in total.
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
  uint64_t Room() const { return static_cast<uint64_t>(group_.grammar_memory().compiled); }
  Use UseOfRoom() const;
  bool MayHaveRoom(const Held& held, const Use& use) const;
  bool MakeRoomFor(const Held& held, std::vector<RequestId>& given_way);
  bool UseKept(const Held& held);
  void LetThrough(Held& held, Engine& engine);
  void Tell(uint64_t ticket, const GrammarSource& source);

  WorkerGroup& group_;
  EpochId epoch_ = 0;      // epoch of the ranks that were asked
  std::deque<Held> held_;  // ordered by arrival
  std::list<Kept> kept_;   // most recently used first
  std::map<GrammarDigest, std::list<Kept>::iterator> kept_by_digest_;
  // For each client with a held grammar: the ticket of the client's latest order to the ranks, or a starting value just
  // below the latest ticket. The client with the lowest value is next.
  std::map<std::string, uint64_t> turns_;
  uint64_t last_ticket_ = 0;
};

}  // namespace quire
