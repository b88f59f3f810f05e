#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/command.h"
#include "coordinator/core/schedule/admission.h"
#include "coordinator/core/schedule/drafting.h"
#include "coordinator/core/schedule/migration.h"
#include "coordinator/core/schedule/place_sharing.h"
#include "coordinator/core/schedule/stage_turns.h"
#include "coordinator/core/schedule/step_length.h"
#include "coordinator/core/schedule/step_results.h"
#include "coordinator/core/schedule/step_shares.h"

namespace quire {

/// The scheduling policy. Prefill and decode are not separate phases: every sequence has known tokens and computed
/// tokens, and each step computes more of the known tokens under a token budget. Sequences that decode come first, then
/// chunks of the others, the most senior request first. When blocks run out, the scheduler preempts the most junior
/// running request with all its sequences. Its blocks are swapped to the host or recomputed later; by default,
/// whichever is cheaper.
///
/// While several clients are active, each has an equal share of sequence slots, blocks and step tokens. For a waiting
/// client below its share, the youngest requests of clients above their share are preempted. Steps are then short and
/// split evenly.
///
/// A step may be planned while earlier steps are outstanding. Tokens that those steps sample count as known, though
/// their values are not. Beams need the values, and preemption requires that no step is outstanding, so both wait for
/// results. If a step planned ahead lacked room for a request, the next step is planned when no step is outstanding. If
/// the workers form a pipeline, the decodes take turns, so that its stages compute different sequences at the same
/// time.
///
/// Encoders read a prompt as a whole (SchedulerLimits::whole_prompts). A step then has whole prompts, as many as its
/// tokens allow, and slices of longer prompts' passes (LongPasses).
///
/// Each rule is a class of its own (coordinator/README.md, The scheduler's classes). The method Schedule shows the
/// order of the rules.
class Scheduler {
 public:
  static constexpr int64_t kProtectedSteps = PlaceSharing::kProtectedSteps;
  static constexpr int64_t kReservedSteps = Admission::kReservedSteps;

  Scheduler(SchedulerLimits limits, BlockManager& blocks);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues a request. The caller keeps the request alive until it is finished or removed. Requires CanEverRun.
  void Add(Request& request);

  /// True when slots and pool could hold the request at its full length, with n choices, if nothing else ran.
  bool CanEverRun(int num_prompt_tokens, int max_tokens, int n) const;
  /// Returns the number of blocks that a request of n choices needs at its full length.
  int64_t BlocksAtLongest(int num_prompt_tokens, int max_tokens, int n) const {
    return demand_.AtLongest(num_prompt_tokens, max_tokens, n);
  }

  /// Plans the next step; an empty plan means that nothing can run. The plan is valid until the next call of any
  /// method. The caller fills in epoch and step. A non-empty step is outstanding from now on. Requires fewer than
  /// SchedulerLimits::most_outstanding outstanding steps.
  StepPlan& Schedule();

  /// True when `tokens` match the members of the oldest outstanding step that sample, in batch order.
  bool Fits(const std::vector<SampledToken>& tokens) const { return results_.Fits(tokens); }
  /// True when `scores` match the prompt tokens that the oldest outstanding step scores.
  bool Fits(const std::vector<PromptScores>& scores) const { return results_.Fits(scores); }
  /// True when `guesses`, the drafts of the draft model, match the orders of the oldest outstanding step.
  bool Fits(const std::vector<Draft>& guesses) const { return results_.Fits(guesses); }
  /// Returns the request that the oldest outstanding step computes in this slot; nothing if the request has ended.
  std::optional<RequestId> RequestOf(SlotId slot) const { return results_.RequestOf(slot); }

  using Drawn = StepResults::Drawn;
  /// Commits the oldest outstanding step: advances computed counts and appends sampled tokens. `tokens` are in batch
  /// order; tokens of sequences that have left are dropped. `guesses` become drafts of the next step. Returns the
  /// sequences that got tokens; the result is valid until the next call, and only while `tokens` exists.
  std::span<const Drawn> Commit(const std::vector<SampledToken>& tokens, const std::vector<Draft>& guesses = {}) {
    return results_.Commit(tokens, guesses);
  }

  /// Makes each sequence of the request the beam that `steps` chose for it. Call it when the step just committed has
  /// sampled for every beam of the request.
  void Branch(Request& request, std::span<const BeamSearch::Step> steps) { results_.Branch(request, steps); }

  /// Removes a finished sequence from the running set and frees its blocks.
  void Finish(Request& request, Sequence& sequence, FinishReason reason);

  /// Removes a request, waiting or running, and frees its blocks. Freed blocks may be reused immediately, because a new
  /// owner writes them only in a step after all outstanding steps. The same holds for Finish.
  void Drop(Request& request);

  /// Removes a request, waiting or running, for another engine. The request's blocks stay on the host as a holding
  /// under the ticket if the ticket is not 0, the blocks are at most max_blocks, the host has room, and the request can
  /// continue from them. Then returns the holding's blocks; `moves` must be made before the next plan. Otherwise
  /// discards all computed tokens and returns no blocks.
  std::vector<BlockId> Depart(Request& request, const command::Depart& how, std::vector<BlockCopyPair>& moves) {
    return migration_.Depart(request, how, moves);
  }
  /// Removes a request, waiting or running, and discards all its computed tokens. TakeUp queues it again.
  void SetAside(Request& request) { migration_.SetAside(request); }
  void TakeUp(Request& request) { migration_.TakeUp(request); }
  /// Takes over a request from another engine without computed tokens, and sets it aside.
  void ArriveAside(Request& request) { migration_.ArriveAside(request); }
  /// Takes over a request from another engine and queues it, as a preempted request if it was ever admitted. With a
  /// host holding the request counts as swapped out; `names` are the ids that Depart returned. With a device holding,
  /// its first names.size() blocks enter the prefix cache; `names` are the ids that Share returned.
  void Arrive(Request& request, uint64_t ticket, std::span<const BlockId> names) {
    migration_.Arrive(request, ticket, names);
  }
  /// Returns the number of distinct blocks of the request, on the device or on the host.
  int BlocksOf(const Request& request) const { return BlockDemand::Held(request); }

  /// Requeues every running request, empties the cache, ends all pins and tickets, and forgets all outstanding steps.
  /// Called when the workers are lost or replaced.
  void Reset();

  /// Reports the duration of the oldest outstanding step, without the time that the draft model took after it.
  /// swap_seconds: part of `seconds` in which blocks moved between device and host. Call this before Commit.
  void ObserveStep(double seconds, double swap_seconds);
  /// Reports that the draft model took `seconds` after the oldest outstanding step to make `tokens` draft tokens. Call
  /// this after ObserveStep and before Commit.
  void ObserveGuesses(int tokens, double seconds);

  using ClientReport = quire::ClientReport;
  std::map<std::string, ClientReport> Clients() const { return shares_.Clients(); }

  int num_outstanding() const { return steps_.size(); }
  /// Returns the token budget of the last planned step, in the unit of Request::StepCost.
  int step_budget() const { return draft_.most_tokens; }
  const OutstandingSteps& outstanding() const { return steps_; }
  const LongPasses& passes() const { return passes_; }
  /// True when the last planned step may have only some of the decodes, because the workers form a pipeline.
  bool takes_turns() const { return !is_together_; }
  int num_waiting() const { return queue_.size(); }
  int num_running() const { return running_.size(); }
  int64_t num_preemptions() const { return preemption_.num_preemptions(); }
  int64_t num_swapped_out() const { return preemption_.num_swapped_out(); }
  const WaitingQueue& queue() const { return queue_; }
  /// Returns the number of steps planned since the start.
  int64_t num_steps() const { return num_steps_; }
  const std::vector<Request*>& running() const { return running_.requests(); }
  /// Returns the last decision that held a request at the head of the queue. The decision names the request and what
  /// it lacked.
  const Decision& last_held() const { return decisions_.last_held(); }
  LearnedCost& cost() { return cost_; }
  const LearnedCost& cost() const { return cost_; }
  /// Sets the number of stages of the workers' pipeline. No step may be outstanding.
  void SetStages(int num_stages);
  void SetTarget(double step_seconds) { limits_.target_step_seconds = step_seconds; }
  void set_decision_log(DecisionLog* log) { decisions_.set_log(log); }
  /// Switches speculation on. The proposer must outlive the scheduler.
  void SetProposer(DraftProposer* proposer, const DraftOptions& options) { drafting_.SetProposer(proposer, options); }

  /// Aborts if an invariant is broken. Reference counts must equal the number of table entries, pins and holdings that
  /// name each block; tables must have the right length; every slot must have one owner; waiting requests must hold
  /// nothing on the device; tokens in flight must match the outstanding steps.
  void CheckIntegrity() const;

 private:
  static constexpr double kCompanyKept = 3;  // seconds of steps; see company_left_

  // Schedule calls these functions in this order.
  bool MustWait() const;
  void BeginStep(StepDraft& draft);
  bool ShareOut(StepDraft& draft);
  void ServeRunning(StepDraft& draft);
  void Launch(StepDraft& draft);
  void CopyAhead(StepPlan& plan);

  void Detach(Sequence& sequence);

  // The members below, up to draft_, hold their values from step to step.
  SchedulerLimits limits_;
  BlockManager& blocks_;
  WaitingQueue queue_;
  RunningSet running_;
  OutstandingSteps steps_{limits_.most_outstanding()};
  LearnedCost cost_{limits_.short_context};
  DecisionTeller decisions_;
  int64_t num_steps_ = 0;
  double company_left_ = 0;  // seconds of steps for which the rules for several active clients still apply
  bool is_together_ = true;  // true: each step has all decodes; false: decodes take turns in a pipeline
  bool left_out_ = false;    // the last step was planned ahead and lacked room for a request
  StepDraft draft_;          // the last planned step

  // The scheduler's rules. A rule uses only rules that are declared before it.
  BlockDemand demand_{limits_, blocks_};
  StepLength length_{limits_, blocks_, running_, cost_};
  StageTurns stage_turns_{limits_, running_};
  StepShares step_shares_{queue_, running_, cost_};
  StepWriter writer_{blocks_, running_, cost_, decisions_};
  LongPasses passes_{limits_, blocks_, queue_, running_, cost_};
  RequestWork work_{limits_, blocks_, steps_, cost_, passes_, decisions_};
  Preemption preemption_{limits_, blocks_, queue_, running_, cost_, decisions_};
  ClientShares shares_{limits_, blocks_, queue_, running_, demand_};
  RoomEstimate room_{limits_, blocks_, running_, demand_, shares_};
  Admission admission_{blocks_, queue_, running_, shares_, room_, passes_, work_, writer_, preemption_, decisions_};
  PlaceSharing places_{queue_, running_, shares_, room_, preemption_, admission_, decisions_};
  Drafting drafting_{limits_, blocks_};
  StepResults results_{blocks_, running_, steps_};
  Migration migration_{blocks_, queue_, running_, steps_, decisions_};

  friend class EngineArchive;
};

}  // namespace quire
