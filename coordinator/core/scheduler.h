#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/core/block_manager.h"
#include "coordinator/core/command.h"
#include "coordinator/core/decision_log.h"
#include "coordinator/core/learned_cost.h"
#include "coordinator/core/outstanding_steps.h"
#include "coordinator/core/step_draft.h"
#include "coordinator/core/waiting_queue.h"

namespace quire {

struct SchedulerLimits {
  int max_step_tokens = 512;  // tokens one step may compute; at least max_running
  int max_running = 256;      // sequences
  PreemptionMode preemption = PreemptionMode::kAuto;
  int lookahead_tokens = 16;       // admission leaves every running sequence room to grow by so many
  int suspect_after = 2;           // a request that lost so many epochs in a row runs alone until it gets a token
  double target_step_seconds = 0;  // LiveOptions
};

/// The policy. There is no prefill phase and no decode phase: every sequence has known tokens and computed tokens, and
/// each step lets the second catch up with the first under a token budget, most senior request first.
/// When blocks run out the most junior running request is preempted, all its sequences together; its blocks move to the
/// host, or are computed again later, whichever is cheaper.
///
/// While several clients are active, each has a share of everything (fair_shares.cc): of the running places, of the
/// blocks, and of every step. A client that waits and has less than its share gets room at once: the youngest requests
/// of whoever has more give way. Steps are kept short then, and split evenly.
///
/// A step may be planned ahead, while the one before it is outstanding. What that one draws counts as known then,
/// though its value is not. Two things need values or a clear field and wait for the results: beams, which go on as
/// their draws say, and preemption. When a step planned ahead had no room for somebody, the next one is planned with
/// nothing outstanding.
class Scheduler {
 public:
  /// Steps for which a request that gave way to another client's is left in peace once it is back; doubled every
  /// time, three times at most.
  static constexpr int64_t kProtectedSteps = 8;
  /// Steps for which room is left to a client after way was made for it or it made use of that room.
  static constexpr int64_t kReservedSteps = 128;

  Scheduler(SchedulerLimits limits, BlockManager& blocks);

  /// Queues a request. It must outlive its stay and be able to run alone (see CanEverRun).
  void Add(Request& request);

  /// True when the pool could hold the request at its longest with nothing else running.
  bool CanEverRun(int num_prompt_tokens, int max_tokens, int n) const;
  /// The blocks that it needs then.
  int64_t BlocksAtLongest(int num_prompt_tokens, int max_tokens, int n) const;

  /// The next step, or an empty plan when nothing can run; valid until the next call of any kind. epoch and step are
  /// left to the caller. Unless it is empty, the step is outstanding from now on; fewer than OutstandingSteps::kMost
  /// may be before.
  StepPlan& Schedule();

  /// True when the tokens are for exactly the members of the oldest outstanding step that draw, in batch order.
  bool Fits(const std::vector<SampledToken>& tokens) const;
  /// The same of prompts' scores.
  bool Fits(const std::vector<PromptScores>& scores) const;
  /// For whom the oldest outstanding step computes in this slot; nothing when it has ended.
  std::optional<RequestId> RequestOf(SlotId slot) const;

  struct Drawn {
    Request* request;
    Sequence* sequence;
    const SampledToken* token;
  };
  /// The oldest outstanding step is done: computed counts advance and drawn tokens are appended. `tokens` are in batch
  /// order; those of sequences that have left since are dropped. Returns the sequences that got a token; valid until
  /// the next call.
  std::span<const Drawn> Commit(const std::vector<SampledToken>& tokens);

  /// The beams of a request go on as chosen; every one of them has just drawn.
  void Branch(Request& request, std::span<const BeamSearch::Step> steps);

  /// Takes a sequence that ended out of the running set and frees its blocks.
  void Finish(Request& request, Sequence& sequence, FinishReason reason);

  /// Takes a request out, wherever it stands, and frees its blocks. Like those of a sequence that finishes, they may be
  /// given away at once: whoever gets them writes in a later step than all that are outstanding.
  void Drop(Request& request);

  /// Takes a request out, wherever it stands, to go on in another engine. Its blocks stay on the host as a holding
  /// under the ticket, if that is not 0, they are max_blocks at most, and there is room: then returns the holding's
  /// blocks, and `moves` are to be done before the next plan. Else nothing that was computed is kept.
  std::vector<BlockId> Depart(Request& request, const command::Depart& how, std::vector<BlockCopyPair>& moves);
  /// Takes in a request that left another engine, as preempted: swapped out to the host's holding if there is one,
  /// `names` being what Depart returned there; or with the first blocks of the device's holding cached, as many as
  /// `names` has, which Share returned.
  void Arrive(Request& request, uint64_t ticket, std::span<const BlockId> names);
  /// Blocks that the request has computed, on the device or swapped out.
  int BlocksOf(const Request& request) const;

  /// The workers are new and know nothing: every running request goes back to the queue, and nothing is cached or
  /// outstanding.
  void Reset();

  /// How long the oldest outstanding step took; before Commit.
  void ObserveStep(double seconds, double swap_seconds);

  /// What a client has of this engine, and what was computed for it since it was first seen or last forgotten.
  struct ClientReport {
    int running = 0, waiting = 0;  // requests
    int running_seqs = 0, blocks = 0;
    int64_t prompt_tokens = 0, generated_tokens = 0;
  };
  std::map<std::string, ClientReport> Clients() const;

  int num_outstanding() const { return steps_.size(); }
  const OutstandingSteps& outstanding() const { return steps_; }
  int num_waiting() const { return queue_.size(); }
  int num_running() const { return static_cast<int>(running_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }
  int64_t num_swapped_out() const { return num_swapped_out_; }
  const WaitingQueue& queue() const { return queue_; }
  /// Steps planned so far.
  int64_t num_steps() const { return num_steps_; }
  const std::vector<Request*>& running() const { return running_; }
  /// Who was last held at the head of the queue, and for want of what; told to the decision log.
  const Decision& last_held() const { return last_held_; }
  LearnedCost& cost() { return cost_; }
  void SetTarget(double step_seconds) { limits_.target_step_seconds = step_seconds; }
  void set_decision_log(DecisionLog* log) { log_ = log; }

  /// Aborts unless block reference counts equal the table entries and pins that name them, tables have the right
  /// length, slots are owned once, waiting requests hold nothing on the device, and what sequences have in flight is
  /// what the outstanding steps say.
  void CheckIntegrity() const;

 private:
  void CheckCheckpoints() const;

  enum class Resource { kSlots, kBlocks };
  /// What a request lacks, if anything, and the numbers of kHeldForSlots or kHeldForBlocks.
  struct Room {
    std::optional<Resource> lacks;
    int a, b;
  };

  bool ahead() const { return steps_.size() > 0; }

  // The step that is being planned.
  void MakeStep();
  void ScheduleRunning(StepDraft& draft);
  bool MakeRoomFor(Request& request, std::span<const GrowTarget> work, std::vector<Request*>& order);
  void Emit(Request& request, std::span<const GrowTarget> work, StepDraft& draft);
  void AddToWorkers(const Request& request, Sequence& sequence, StepDraft& draft);
  void NotePrefixes(Sequence& sequence, int end);
  void OrderBatch();

  // What a request computes in it (request_work.cc).
  /// How far the step takes the request's sequences, for `budget` tokens at most; empty when it must wait for others,
  /// or for results. Lies in the draft, valid until the next call.
  std::span<const GrowTarget> FindWork(Request& request, int budget, StepDraft& draft);
  bool ShareLeadersPrefix(Request& request, int budget, StepDraft& draft);
  void Attach(Request& request, Sequence& sequence, int max_tokens);
  static void DrawTogether(const Request& request, std::vector<GrowTarget>& work);
  bool WaitsForPrefix(Request& request, Sequence& sequence);
  int TokensFor(const Request& request, const Sequence& sequence, int count, int budget) const;
  static int64_t BytesToAdd(const Request& request, const Sequence& sequence);

  // Who gets a place (admission.cc).
  void AdmitWaiting(StepDraft& draft);
  void Begin(Request& request, Crowd& crowd, StepDraft& draft);
  std::span<const GrowTarget> Admit(Request& request, StepDraft& draft);
  void Readmit(Request& request);
  /// A request that may be what kills the workers runs alone, so that it takes nobody along. One whose blocks are on
  /// the host comes back with a plan that is sure to be sent: made ahead, it has work of others already.
  bool MayJoin(const Request& request, const Crowd& crowd);
  bool IsSuspect(const Request& request) const { return request.num_lost_epochs >= limits_.suspect_after; }
  bool HasRoomFor(Request& request, const Crowd& crowd);
  Room RoomFor(Request& request, const Crowd& crowd);
  Crowd CountCrowd() const;
  void CountIn(const Request& request, Crowd& crowd) const;
  void CountOut(const Request& request, Crowd& crowd) const;
  int Needs(Request& request, Resource resource);
  int BlocksAhead(const Sequence& sequence, int num_tokens, int shared = 0) const;
  int BlocksToBegin(Request& request);
  int BlocksToComeBack(const Request& request) const;
  int OutstandingBlocks(const Request& request) const;

  // How much a step computes (step_length.cc).
  struct StepWork {
    int decodes = 0;
    int deepest_chunk = 0;  // tokens before the next ones of whichever prompt has come farthest
  };
  StepWork CountWork() const;
  int64_t MaxContext() const;
  int TokensAlone() const;
  int TokensInCompany() const;
  int TokensForTarget() const;

  // Between clients (fair_shares.cc, step_shares.cc).
  bool ShareOut(StepDraft& draft);
  bool SharePlaces(StepDraft& draft);
  int ShareStep(StepDraft& draft);
  int ShareOf(Resource resource) const;
  void CountUse();
  int Has(const ClientAccount& account, Resource resource);
  bool IsAtLimit(const ClientAccount& account);
  bool IsHeldUp(const ClientAccount& account, bool others_held);
  bool IsWithinShare(Request& head);
  bool StandsBack(ClientAccount& account);
  bool MakeWayFor(Request& head, Crowd& crowd);
  Request* WhoGivesWay(const Request& head, Resource resource);
  bool IsProtected(const Request& request) const;
  void CountReserves(Crowd& crowd) const;
  void OrderForService(StepDraft& draft);
  int MostToGrow() const;
  int BeamsTakeTurns(int tokens);
  void CountDemand(Request& request);
  void SplitStep(int tokens, std::span<ClientAccount*> sharers);
  void TakeTurns(const ClientAccount& account, int decodes);
  int Allowance(const Request& request, const StepDraft& draft) const;
  static void ChargeStep(const Request& request, std::span<const GrowTarget> work);

  // Who leaves (preempt_and_finish.cc).
  void Preempt(Request& victim, const Request& cause);
  bool SwapIsBetter(int blocks) const;
  void LeaveWorkers(Sequence& sequence);
  void Detach(Sequence& sequence);

  void Tell(DecisionKind kind, const Request& request, int64_t a, int64_t b, RequestId cause = 0);

  SchedulerLimits limits_;
  BlockManager& blocks_;
  WaitingQueue queue_;
  std::vector<Request*> running_;  // most senior first
  int64_t num_steps_ = 0;
  LearnedCost cost_;
  static constexpr double kCompanyKept = 3;  // seconds
  double company_left_ = 0;                  // of steps, for which they are made as in company
  DecisionLog* log_ = nullptr;
  Decision last_held_{};  // not told again while nothing changes
  StepPlan plan_;
  OutstandingSteps steps_;
  bool left_out_ = false;           // the last step, planned ahead, had no room for somebody
  std::vector<SlotId> free_slots_;  // handed out from the back
  std::vector<SlotId> released_;    // to be told to the workers with the next plan, like
  std::vector<quire::Branch> branches_;
  int64_t num_preemptions_ = 0, num_swapped_out_ = 0;
  bool use_counted_ = false;  // the accounts' Use says what the clients' running requests have now
  // Memory that is used again: of the step being planned, and of the last one's results.
  StepDraft draft_;
  std::vector<Drawn> drawn_;

  friend class EngineArchive;
};

}  // namespace quire
