#pragma once

#include <deque>
#include <vector>

#include "coordinator/core/block_manager.h"
#include "coordinator/core/request.h"

namespace quire {

struct SchedulerLimits {
  int max_step_tokens = 512;  // tokens one step may compute; at least max_running
  int max_running = 256;      // sequences
};

/// The policy. There is no prefill phase and no decode phase: every sequence has known tokens and computed tokens, and
/// each step lets the second catch up with the first under a token budget, oldest request first.
/// First come, first served. When blocks run out the newest running request is preempted, all its sequences together;
/// it goes back to the head of the queue and recomputes later.
class Scheduler {
 public:
  Scheduler(SchedulerLimits limits, BlockManager& blocks);

  /// Appends to the queue. The request must outlive its stay and be able to run alone (see CanEverRun).
  void Add(Request& request);

  /// True when the pool could hold the request at its longest with nothing else running.
  bool CanEverRun(int num_prompt_tokens, int max_tokens, int n) const;

  /// The next step, or an empty plan when nothing can run. epoch and step are left to the caller.
  /// Must be followed by Commit (or Drop for every request) before the next call.
  StepPlan Schedule();

  /// True when the tokens are for exactly the members of the step in flight that draw, in batch order.
  bool Fits(const std::vector<SampledToken>& tokens) const;

  /// The step's forward pass is done: computed counts advance and drawn tokens are appended. `tokens` are in batch
  /// order. Returns the sequences that got a token.
  struct Drawn {
    Request* request;
    Sequence* sequence;
    const SampledToken* token;
  };
  std::vector<Drawn> Commit(const std::vector<SampledToken>& tokens);

  /// Takes a sequence that ended out of the running set and frees its blocks.
  void Finish(Request& request, Sequence& sequence, FinishReason reason);

  /// Takes a request out, wherever it stands, and frees its blocks. No step may be in flight.
  void Drop(Request& request);

  /// The workers are new and know nothing: every running request goes back to the queue in its order.
  void Reset();

  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  int num_running() const { return static_cast<int>(running_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }
  const std::deque<Request*>& waiting() const { return waiting_; }
  const std::vector<Request*>& running() const { return running_; }

  /// Aborts unless block reference counts equal the table entries that name them, tables have the right length,
  /// slots are owned once and waiting requests hold nothing.
  void CheckIntegrity() const;

 private:
  struct Work {
    Sequence* sequence;
    int count;  // tokens
  };
  struct InFlight {
    Request* request;
    Sequence* sequence;
    int count;
    bool draws;
  };

  void ScheduleRunning(StepPlan& plan, int& budget);
  void AdmitWaiting(StepPlan& plan, int& budget);
  std::vector<Work> WorkOf(Request& request, int budget);
  int BlocksFor(const std::vector<Work>& work) const;
  int OutstandingBlocks() const;
  bool HasRoomFor(Request& request) const;
  void Emit(Request& request, const std::vector<Work>& work, StepPlan& plan, int& budget);
  void AddToWorkers(const Request& request, Sequence& sequence, StepPlan& plan);
  void OrderBatch(StepPlan& plan);
  void Preempt(Request& request);
  void Detach(Sequence& sequence);
  int RunningSequences() const;

  SchedulerLimits limits_;
  BlockManager& blocks_;
  std::deque<Request*> waiting_;
  std::vector<Request*> running_;  // oldest first
  std::vector<InFlight> in_flight_;
  std::vector<SlotId> free_slots_;  // handed out from the back
  std::vector<SlotId> released_;    // to be told to the workers with the next plan
  int64_t num_preemptions_ = 0;
};

}  // namespace quire
