#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/engine/engine.h"
#include "tests/sim/judge.h"
#include "tests/sim/turns.h"

namespace quire::sim {

/// Checks the scheduler's decisions: which request is admitted next; which request is preempted, how, and for which
/// other request; which request is preempted so that another client gets its share ("gives way"); and the room that
/// admission leaves free.
class Watcher : public DecisionLog {
 public:
  Watcher(const Engine& engine, PreemptionMode mode, Turns& turns, Judge& judge, bool aloud)
      : engine_(engine), mode_(mode), turns_(turns), judge_(judge), aloud_(aloud) {}
  void OnDecision(const Decision& decision) override;

  /// Records that the engine is about to make a plan.
  void BeginPlan();
  /// True when the request was preempted for another client recently and must not be preempted for another client again
  /// yet.
  bool IsProtected(RequestId id) const;

  bool preempted_in_step = false, admitted_beside_others = false, pins_broken = false;
  int64_t gave_way = 0, stood_back = 0, set_aside = 0, overtaken = 0;
  int64_t swapped_out = 0, swapped_in = 0, brought = 0;  // blocks of preempted requests; copies that came back
  std::vector<RequestId> just_set_aside;                 // tokens that outstanding steps sample for them are dropped

 private:
  void OnAdmitted(const Decision& decision);
  void OnGivesWay(const Decision& decision);
  void OnStoodBack(const Decision& decision);
  void OnPreempted(const Decision& decision);
  void CheckKeptRoom(const Request& request) const;
  void CheckRightToRoom(const Request& request) const;
  int MostToBegin(const Request& request) const;
  int KeptPlaces(const Request& request) const;
  int MostToGrow(const Request& request) const;
  std::vector<RequestId> ReturningBefore(const Request& request) const;
  bool MayLackBlocks(const Request& request) const;
  void CheckSeniority(const Request& victim, const Request& cause) const;
  struct Use {
    int sequences;
    int64_t blocks;
  };
  Use UseWith(const Request& head) const;
  bool IsAtLimit(const Request& head) const;
  bool MayWaitForPasses(const Request& request) const;
  bool Overtakes(RequestId id) const;
  int ShareOfPlaces() const;
  bool MustStandBack(const Request& request) const;
  bool MayStandBack(const Request& request) const;
  int RunningSequences(const std::string& client) const;
  int ShareOfBlocks() const;

  const Engine& engine_;
  PreemptionMode mode_;
  Turns& turns_;
  Judge& judge_;
  bool aloud_;
  std::set<std::pair<RequestId, int64_t>> ended_;
  std::set<std::string> clients_that_gave_way_;  // clients that gave way in the plan that is being made
  std::pair<RequestId, RequestId> gives_way_;    // victim and cause, until the victim is preempted
  std::map<RequestId, int> num_yields_;
  std::map<RequestId, int64_t> admitted_step_;
  struct KeptRoom {
    int sequences = 0;
    int blocks = 0;  // most blocks that the client may need
    int64_t until_step = 0;
  };
  // For each client: the sequences and blocks that the client had when a request was last preempted for it, including
  // the request in whose favour the other was preempted.
  std::map<std::string, KeptRoom> kept_rooms_;
};

/// An observer of the engine that passes decisions to the Watcher and ignores inputs.
class DecisionsOnly : public EngineObserver {
 public:
  explicit DecisionsOnly(Watcher& watcher) : watcher_(watcher) {}
  void OnDecision(const Decision& decision) override { watcher_.OnDecision(decision); }
  void BeforePlan(double) override {}
  void OnCommand(const Command&, const CommandOutcome&) override {}

 private:
  Watcher& watcher_;
};

}  // namespace quire::sim
