#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/command.h"
#include "coordinator/core/decision_log.h"
#include "coordinator/core/schedule/draft_cost.h"
#include "coordinator/core/schedule/draft_proposer.h"
#include "coordinator/core/schedule/learned_cost.h"
#include "coordinator/core/schedule/outstanding_steps.h"
#include "coordinator/core/schedule/step_draft.h"
#include "coordinator/core/schedule/waiting_queue.h"

namespace quire {

struct SchedulerLimits {
  int max_step_tokens = 512;  // tokens per step, at most; must be at least max_running
  int max_running = 256;      // sequences running at once, at most
  PreemptionMode preemption = PreemptionMode::kAuto;
  int lookahead_tokens = 16;       // tokens of growth per running sequence for which admission leaves room
  int suspect_after = 2;           // so many lost worker groups in a row: the request runs alone until it gets a token
  double target_step_seconds = 0;  // aimed length of a step in seconds (LiveOptions)
  /// The model reads a prompt as a whole: no prompt is cut, and max_step_tokens is at least as long as any.
  bool whole_prompts = false;
};

/// The scheduling policy. It has no separate prefill and decode phases: every sequence has known tokens and computed
/// tokens, and each step computes more of them under a token budget: first sequences that decode, then chunks of the
/// others, most senior request first. When blocks run out, the scheduler preempts the most junior running request with
/// all its sequences. Its blocks are swapped to the host or recomputed later, whichever is cheaper.
///
/// While several clients are active, each has an equal share of running places, blocks and step tokens
/// (fair_shares.cc). A waiting client with less than its share gets room at once: the youngest requests of clients
/// above their share are preempted. Steps are then short and split evenly.
///
/// A step may be planned while the previous step is outstanding. Tokens drawn by that step count as known, though their
/// values are not. Beams need values and preemption needs nothing outstanding, so both wait for results. If a step
/// planned ahead lacked room for a request, the next step is planned with nothing outstanding.
///
/// Encoders read a prompt as a whole (SchedulerLimits::whole_prompts). A step then has whole prompts only, as many as
/// its tokens allow. The first prompt of a step may be longer than that.
class Scheduler {
 public:
  /// A request that gave way to another client is protected for this many steps after readmission. The number doubles
  /// each further time, three times at most.
  static constexpr int64_t kProtectedSteps = 8;
  /// Room that was made for a client, or that it used since, stays reserved for the client for this many steps.
  static constexpr int64_t kReservedSteps = 128;

  Scheduler(SchedulerLimits limits, BlockManager& blocks);

  /// Queues a request. The caller keeps it alive while it is here; it must be able to run alone (CanEverRun).
  void Add(Request& request);

  /// True when the pool could hold the request at its full length with nothing else running.
  bool CanEverRun(int num_prompt_tokens, int max_tokens, int n) const;
  /// The blocks that the request needs at its full length.
  int64_t BlocksAtLongest(int num_prompt_tokens, int max_tokens, int n) const;

  /// Plans the next step; an empty plan means that nothing can run. Valid until the next call of any kind. The caller
  /// fills in epoch and step. A non-empty step is outstanding from now on. Fewer than OutstandingSteps::kMost steps may
  /// be outstanding before.
  StepPlan& Schedule();

  /// True when `tokens` match the drawing members of the oldest outstanding step, in batch order.
  bool Fits(const std::vector<SampledToken>& tokens) const;
  /// True when `scores` match the prompt tokens that the oldest outstanding step scores.
  bool Fits(const std::vector<PromptScores>& scores) const;
  /// The request that the oldest outstanding step computes in this slot; nothing if the request has ended.
  std::optional<RequestId> RequestOf(SlotId slot) const;

  struct Drawn {
    Request* request;
    Sequence* sequence;
    std::span<const SampledToken> tokens;  // drawn tokens: at least one, more only where drafts were right
    int num_drafts;
    DraftSource source;
  };
  /// Commits the oldest outstanding step: advances computed counts and appends drawn tokens. `tokens` are in batch
  /// order; tokens of sequences that have left are dropped. Returns the sequences that got tokens; valid until the next
  /// call, as long as `tokens`.
  std::span<const Drawn> Commit(const std::vector<SampledToken>& tokens);

  /// Continues the beams of a request as `steps` chose; every beam has just drawn.
  void Branch(Request& request, std::span<const BeamSearch::Step> steps);

  /// Removes a finished sequence from the running set and frees its blocks.
  void Finish(Request& request, Sequence& sequence, FinishReason reason);

  /// Removes a request, waiting or running, and frees its blocks. Freed blocks may be reused at once: a new owner
  /// writes only in a step after all outstanding ones. The same holds for Finish.
  void Drop(Request& request);

  /// Removes a request, waiting or running, for another engine. Its blocks stay on the host as a holding under the
  /// ticket if the ticket is not 0, the blocks are at most max_blocks, and the host has room. Then returns the
  /// holding's blocks; `moves` must be made before the next plan. Otherwise discards everything computed.
  std::vector<BlockId> Depart(Request& request, const command::Depart& how, std::vector<BlockCopyPair>& moves);
  /// Removes a request, waiting or running, and discards everything computed. TakeUp queues it again.
  void SetAside(Request& request);
  void TakeUp(Request& request);
  /// Takes over a request from another engine that is set aside at once: nothing computed comes along.
  void ArriveAside(Request& request);
  /// Takes over a request from another engine in the state of a preempted request. With a host holding it counts as
  /// swapped out; `names` are the ids that Depart returned. With a device holding its first names.size() blocks enter
  /// the prefix cache; `names` are the ids that Share returned.
  void Arrive(Request& request, uint64_t ticket, std::span<const BlockId> names);
  /// Distinct blocks of the request, on the device or swapped out.
  int BlocksOf(const Request& request) const;

  /// A new worker group knows nothing: requeues every running request and empties the cache and the list of outstanding
  /// steps.
  void Reset();

  /// Reports the duration of the oldest outstanding step; call before Commit.
  void ObserveStep(double seconds, double swap_seconds);

  /// One client's present use of this engine, and tokens computed for it since the engine first saw or last forgot the
  /// client.
  struct ClientReport {
    int running = 0, waiting = 0;  // numbers of requests
    int running_seqs = 0, blocks = 0;
    int64_t prompt_tokens = 0, generated_tokens = 0;
  };
  std::map<std::string, ClientReport> Clients() const;

  int num_outstanding() const { return steps_.size(); }
  /// Tokens that the last planned step could have, as Request::StepCost charges them.
  int step_budget() const { return draft_.most_tokens; }
  const OutstandingSteps& outstanding() const { return steps_; }
  int num_waiting() const { return queue_.size(); }
  int num_running() const { return static_cast<int>(running_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }
  int64_t num_swapped_out() const { return num_swapped_out_; }
  const WaitingQueue& queue() const { return queue_; }
  /// Steps planned so far.
  int64_t num_steps() const { return num_steps_; }
  const std::vector<Request*>& running() const { return running_; }
  /// The request last held at the head of the queue and what it lacked, as told to the decision log.
  const Decision& last_held() const { return last_held_; }
  LearnedCost& cost() { return cost_; }
  const LearnedCost& cost() const { return cost_; }
  void SetTarget(double step_seconds) { limits_.target_step_seconds = step_seconds; }
  void set_decision_log(DecisionLog* log) { log_ = log; }
  /// Switches speculation on. The proposer must outlive the scheduler.
  void SetProposer(DraftProposer* proposer, const DraftOptions& options) {
    proposer_ = proposer;
    drafts_ = options;
  }

  /// Aborts if an invariant is broken: reference counts equal the table entries, pins and holdings that name each
  /// block; tables have the right length; every slot has one owner; waiting requests hold nothing on the device; tokens
  /// in flight match the outstanding steps.
  void CheckIntegrity() const;

 private:
  void CheckCheckpoints() const;

  enum class Resource { kSlots, kBlocks };
  /// The resource that a request lacks, if any. a and b are the numbers of DecisionKind::kHeldForSlots or
  /// kHeldForBlocks.
  struct Room {
    std::optional<Resource> lacks;
    int a, b;
  };

  bool ahead() const { return steps_.size() > 0; }

  // Planning one step.
  void MakeStep();
  void ScheduleRunning(StepDraft& draft);
  bool MakeRoomFor(Request& request, std::span<const GrowTarget> work, std::vector<Request*>& order);
  void Emit(Request& request, std::span<const GrowTarget> work, StepDraft& draft);
  void AddToWorkers(const Request& request, Sequence& sequence, StepDraft& draft);
  void NotePrefixes(Sequence& sequence, int end);
  static bool IsDecode(const StepMember& member);
  void OrderBatch();

  // Drafts (drafting.cc).
  bool MayHaveDrafts(const Request& request) const;
  bool WaitsForDrafts() const;
  void AddDrafts(StepDraft& draft);

  // The tokens that a request computes in the step (request_work.cc).
  /// How far the step takes the request's sequences within the allowance. Empty when the request must wait for other
  /// requests or for results. Points into the draft; valid until the next call.
  std::span<const GrowTarget> FindWork(Request& request, Allowance allowance, StepDraft& draft);
  bool ShareLeadersPrefix(Request& request, int budget, StepDraft& draft);
  void Attach(Request& request, Sequence& sequence, int max_tokens);
  static void DrawTogether(const Request& request, std::vector<GrowTarget>& work);
  bool WaitsForPrefix(Request& request, Sequence& sequence);
  int TokensFor(const Request& request, const Sequence& sequence, int count, int budget) const;
  static int64_t BytesToAdd(const Request& request, const Sequence& sequence);

  // Admission (admission.cc).
  void AdmitWaiting(StepDraft& draft);
  void Begin(Request& request, Crowd& crowd, StepDraft& draft);
  std::span<const GrowTarget> Admit(Request& request, StepDraft& draft);
  void Readmit(Request& request);
  /// False when the request must not run beside the present ones. A suspect, which may be what kills the workers, runs
  /// alone so that no other request is lost with it. A swapped-out request returns only with a plan that is sure to be
  /// sent; a step planned ahead must already have other work.
  bool MayJoin(const Request& request, const Crowd& crowd);
  bool IsSuspect(const Request& request) const { return request.num_lost_epochs >= limits_.suspect_after; }
  bool HasRoomFor(Request& request, const Crowd& crowd);
  Room RoomFor(Request& request, const Crowd& crowd);
  Crowd CountCrowd() const;
  void CountIn(const Request& request, Crowd& crowd) const;
  void CountOut(const Request& request, Crowd& crowd) const;
  int Needs(Request& request, Resource resource);
  int BlocksAhead(int entries, int held, int num_tokens) const;
  int BlocksAhead(const Sequence& sequence, int num_tokens, int shared = 0) const;
  int BlocksToBegin(Request& request);
  int BlocksToComeBack(const Request& request) const;
  int OutstandingBlocks(const Request& request) const;

  // The length of a step (step_length.cc).
  struct StepWork {
    int decodes = 0;
    int deepest_chunk = 0;  // largest number of tokens before the next prompt chunk of any sequence
  };
  StepWork CountWork() const;
  int64_t MaxContext() const;
  int TokensAlone() const;
  int TokensInCompany() const;
  int TokensForTarget() const;
  bool FitsStep(const Request& request, StepDraft& draft) const;

  // Fairness between clients (fair_shares.cc, step_shares.cc).
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
  KeptRoom CountReserves() const;
  void OrderForService(StepDraft& draft);
  int MostToGrow() const;
  int BeamsTakeTurns(int tokens);
  void CountDemand(Request& request);
  void SplitStep(int tokens, std::span<ClientAccount*> sharers);
  void TakeTurns(const ClientAccount& account, int decodes);
  static int DecodesOf(const Request& request, const StepDraft& draft);
  Allowance AllowanceOf(const Request& request, int later_decodes, const StepDraft& draft) const;
  static void ChargeStep(const Request& request, std::span<const GrowTarget> work);

  // Parts of Depart and Arrive (scheduler_migration.cc).
  void TakeOut(Request& request);
  void DiscardComputed(Request& request);
  void Enter(Request& request);
  void Restart(Request& request, bool has_blocks);

  // Preemption and the end of sequences (preempt_and_finish.cc).
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
  static constexpr double kCompanyKept = 3;  // the value of company_left_ after a step with several active clients
  double company_left_ = 0;  // seconds of steps for which the rules for several active clients still apply
  DecisionLog* log_ = nullptr;
  Decision last_held_{};  // keeps the log from being told the same held request twice in a row
  StepPlan plan_;
  OutstandingSteps steps_;
  DraftProposer* proposer_ = nullptr;  // null: no speculation
  DraftOptions drafts_;
  DraftCost draft_cost_;
  bool left_out_ = false;           // the last step was planned ahead and lacked room for a request
  std::vector<SlotId> free_slots_;  // a stack: slots are taken from the back
  std::vector<SlotId> released_;    // slots to release with the next plan, as with branches_
  std::vector<quire::Branch> branches_;
  int64_t num_preemptions_ = 0, num_swapped_out_ = 0;
  bool use_counted_ = false;  // ClientAccount::use counts the present running requests
  // Buffers kept to reuse their memory: of the step being planned, and of the last result.
  StepDraft draft_;
  std::vector<Drawn> drawn_;

  friend class EngineArchive;
};

}  // namespace quire
