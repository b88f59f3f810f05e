#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tests/sim/client.h"
#include "tests/sim/decodes.h"
#include "tests/sim/disk.h"
#include "tests/sim/newcomers.h"
#include "tests/sim/proposer.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/simulator.h"
#include "tests/sim/watcher.h"

namespace quire::sim {

/// One simulated run, from a seed. simulation.cc has the course of events, and simulation_workers.cc the workers.
class Simulation {
 public:
  Simulation(uint64_t seed, bool aloud);
  Outcome Run();

 private:
  static constexpr int64_t kMaxEvents = 30'000, kMaxFaultyEpochs = 20;

  /// A sequence in a plan.
  struct Member {
    RequestId request;  // 0: the request has left the engine since
    int choice;
    SlotId slot;
    int count;                           // computed tokens, drafts included
    int num_drafts;                      // drafts among them
    std::vector<BlockId> blocks, state;  // the tables that the workers must have in this step
  };
  /// A plan that was sent and has no result yet.
  struct Sent {
    Frame frame;
    std::vector<Member> members;
    std::vector<GuessOrder> guesses;  // drafts that the draft model must make after this step
  };
  /// A request on its way to another engine. The simulation has one engine, which is both the source and the
  /// destination and uses a ticket for each.
  struct Traveller {
    RequestId id = 0;
    std::unique_ptr<Request> request;  // null while only its blocks are on the way
    uint64_t from = 0, to = 0;         // tickets of the transfer at both ends
    MigrationWay way = MigrationWay::kHost;
    std::vector<BlockId> blocks;
    std::vector<BlockCopyPair> moves;
    size_t plans_before = 0;  // plans that the workers run before they move the blocks
  };

  /// True with this probability, but never after kMaxFaultyEpochs epochs, so that every request can be answered.
  bool Fails(double probability) { return outcome_.epochs < kMaxFaultyEpochs && Happens(random_, probability); }
  static bool Happens(test::Random& random, double probability) {
    return probability > 0 && static_cast<double>(random.Below(1'000'000)) < probability * 1e6;
  }
  void Trace(uint64_t value) { outcome_.trace_hash = Mix(outcome_.trace_hash, value); }

  // --- the course of events ---
  void Arrive();
  void Submit(const Arrival& arrival, RequestId id);
  void Interfere();
  void Operate();
  void Pin();
  void ChangeOptions();
  void Expire();
  void Act();
  bool Plan();
  /// Calls the engine. During the call, the requests in `due` must end, the requests in `may_end` may end, and no
  /// others may.
  template <class Call>
  void Expect(const Endings& due, const Endings& may_end, Call call);
  template <class Call>
  void Expect(const Endings& due, Call call) {
    Expect(due, due, call);
  }
  /// Closes the records of requests that have ended.
  void Settle();
  void Settle(RequestId id, const Client& client);
  void Check();
  void CheckPins() const;
  void CheckRest();
  void CheckStats() const;
  void CheckMoves(const StepPlan& plan);
  void CheckCopies() const;
  void Say(const StepPlan& plan) const;

  // --- workers ---
  PlanLimits Limits() const;
  PoolSizes PoolsOfNextEpoch();
  int StagesOfNextEpoch();
  void StartEpoch();
  void NoteMembers(const StepPlan& plan, Sent& sent);
  void CheckKeptStates(const StepPlan& plan) const;
  void CheckLeftOut(int num_tokens);
  void CheckNewcomers(const StepPlan& plan);
  void CheckPlaces() const;
  void MoveAdapters();
  void LeaveNewcomers(const std::string& client);
  void ForgetSetAside();
  /// True when one client is active, and has been the only one for so long that the rules for several clients no longer
  /// apply.
  bool IsAlone() const { return turns_.NumActive() == 1 && company_left_ <= 0; }
  void CheckClientLimits() const;
  void CheckTables(const SimWorker& worker, const Sent& sent) const;
  void Forget(RequestId id);
  bool IsWanted(const Member& member) const;
  void TakeResult();
  void LoseGroup();
  bool AllAnswer(const Sent& sent, std::vector<SampledToken>& tokens);
  void CheckFits(const std::vector<SampledToken>& tokens);
  void CheckFits(const std::vector<PromptScores>& scores);
  std::vector<Draft> GuessesAfter(const Sent& sent);
  void CheckFits(const std::vector<Draft>& guesses, const std::vector<GuessOrder>& orders);
  void CheckRightGuesses(const Sent& sent, const std::vector<SampledToken>& tokens) const;
  void ExpectDrafts(Client& client, const Member& member, int accepted);
  void CheckDrafts(const Sent& sent) const;
  Endings BreakNumbers(const Sent& sent, std::vector<SampledToken>& tokens);
  void Commit(const Sent& sent, std::vector<SampledToken>& tokens, const StepTimes& times,
              const std::vector<Draft>& guesses);

  // --- between engines ---
  void Travel();
  bool Reserve(uint64_t ticket, int room, MigrationWay way);
  void Depart(RequestId id);
  void HasLeft(RequestId id, bool with_blocks);
  void SendAhead(RequestId id);
  bool Follow(Traveller& traveller);
  void EndStragglers(bool all);
  void Pack(const Traveller& traveller);
  void ComeBack(Traveller traveller);
  bool IsCached(const Request& request) const;
  bool IsTravelling(RequestId id) const;

  Scenario scenario_;
  test::Random random_, order_, sizes_, moves_, more_, changes_, ways_, later_, guessing_, stages_;
  Proposer proposer_;
  Engine engine_;
  Judge judge_;
  Turns turns_;
  Newcomers newcomers_;
  Decodes decodes_;
  Watcher watcher_;
  bool aloud_;
  DecisionsOnly decisions_;
  std::vector<SimWorker> workers_;
  Disk disk_;
  std::vector<PromptScores> scores_;  // scores of the oldest step
  std::deque<Sent> sent_;             // oldest first
  std::map<RequestId, std::shared_ptr<Client>> clients_;
  std::set<RequestId> open_;         // clients whose records are still open
  std::vector<int32_t> adapters_;    // numbers of the later adapters that the workers have
  std::map<uint64_t, double> pins_;  // expiry time of each pin, by pin
  std::vector<Traveller> travellers_;
  /// A transfer that broke off: the destination's ticket, and the blocks that still arrive for it.
  struct Straggler {
    uint64_t ticket;
    MigrationWay way;
    std::vector<BlockCopyPair> rest;
    int events;  // events until all ranks have ended the transfer
  };
  static constexpr int kStragglerEvents = 5;
  std::vector<Straggler> stragglers_;
  uint64_t last_ticket_ = 0;
  size_t next_arrival_ = 0;
  double now_ = 0;
  EpochId epoch_ = 0;
  StepId last_step_ = 0;
  double company_left_ = 0;   // seconds of steps for which the rules for several clients still apply to one client
  bool left_out_ = false;     // true: the last plan was made ahead and had no room for some request
  int64_t drafts_right_ = 0;  // draft tokens in answers
  std::map<SlotId, std::vector<TokenId>> last_guesses_;  // the draft model's last drafts, right or wrong
  int64_t swap_outs_ = 0, swap_ins_ = 0;                 // blocks that plans moved
  int64_t copied_ = 0, brought_ = 0;  // blocks that went to the host cache, and that came back, before this plan
  int64_t num_drawn_ = 0, num_wanted_ = 0, num_computed_ = 0;  // samples; samples of unended sequences; tokens in plans
  Outcome outcome_;
};

template <class Call>
void Simulation::Expect(const Endings& due, const Endings& may_end, Call call) {
  for (const auto& [id, ending] : may_end) clients_.at(id)->due = ending;
  call();
  for (const auto& [id, ending] : may_end) clients_.at(id)->due.reset();
  for (const auto& [id, ending] : due) {
    if (!clients_.at(id)->ended()) throw Failure{"request " + std::to_string(id) + " was due to end: " + ending.words};
  }
  Settle();
}

}  // namespace quire::sim
