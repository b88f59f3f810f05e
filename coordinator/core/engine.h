#pragma once

#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>

#include "coordinator/core/engine_observer.h"
#include "coordinator/core/scheduler.h"

namespace quire {

struct EngineOptions {
  SchedulerLimits scheduler;
  BlockManagerOptions blocks;
  int max_model_len = 0;  // tokens of a sequence, prompt and generated
  int vocab_size = INT32_MAX;
  double max_wait_seconds = 60;      // in the queue, before anything was computed
  double max_request_seconds = 600;  // from arrival to the last token
  int max_lost_epochs = 3;           // that a request may lose in a row while it runs alone; 0: any number
  bool plan_ahead = true;            // one step is planned and sent while the one before it is outstanding
};

struct EngineStats {
  int64_t prompt_tokens = 0;  // of requests that were admitted to the queue
  int64_t generated_tokens = 0;
  int64_t computed_tokens = 0;                         // recomputation counted in
  int64_t ended_prompt_tokens = 0, cached_tokens = 0;  // of ended requests; the second from the prefix cache
  int64_t steps = 0;
  int64_t finished_stop = 0, finished_length = 0, finished_abort = 0;  // choices
};

/// A request that leaves an engine for another one.
struct Departure {
  std::unique_ptr<Request> request;
  std::vector<BlockCopyPair> moves;  // device block to host block; done before the next plan, and before those are sent
  std::vector<BlockId> blocks;       // the host's, held under the ticket; empty: nothing that was computed comes along
};

/// The state of serving and what moves it: requests in, plans out, results in, tokens out. A single-threaded event
/// handler: no threads, sockets, files or clocks inside, so the same code runs in the simulator.
/// Protocol: every plan that NextPlan gives is sent, and CommitStep gets the results, in the order of the plans.
/// NextPlan may be called at any time; it gives nothing while as many plans are outstanding as may be. Everything else
/// may happen between any two calls. The same calls with the same arguments give the same plans.
class Engine {
 public:
  explicit Engine(const EngineOptions& options);

  /// Does what the command says. Whatever goes in is a command, but for FailAll and DropAll, after which nothing goes
  /// on: the calls below make one each and return what came of it.
  void Apply(const Command& command) {
    std::visit([this](const auto& each) { Do(each); }, command);
  }

  /// Queues a request: every sequence holds its prompt. The reason when it can never run (too long for the model or
  /// the pool), else nothing.
  std::optional<std::string> Submit(std::unique_ptr<Request> request) { return Do(command::Submit{request}); }

  /// Drops a request and frees what it holds; its sink hears nothing more. Unknown ids are ignored (already finished).
  void Cancel(RequestId id) { Do(command::Cancel{id}); }

  /// The same, but its sink is told.
  void Abort(RequestId id, RequestError error, const std::string& message);

  /// The next step to send, numbered, or null when there is nothing to do, or nothing before an outstanding step's
  /// result is in. Valid until the next call of any kind. `now` is in seconds on any steady clock.
  const StepPlan* NextPlan(double now) { return Do(command::Plan{now}); }

  /// True when the tokens are for exactly the sequences that the oldest outstanding plan draws for, and of the
  /// vocabulary.
  bool Fits(const std::vector<SampledToken>& tokens) const;

  /// The same of the prompts' scores.
  bool Fits(const std::vector<PromptScores>& scores) const;

  /// The oldest outstanding plan's result: appends the drawn tokens, delivers them, and ends the sequences that are
  /// complete; a request that got a broken one ends with an error. Tokens of sequences that have ended since the plan
  /// was made are dropped. `scores` may be left out where nobody listens to them: they decide nothing.
  void CommitStep(const std::vector<SampledToken>& tokens, StepTimes times = {},
                  const std::vector<PromptScores>& scores = {}) {
    Do(command::Commit{tokens, times, scores});
  }

  /// Ends requests that have waited or run for too long. `now` is on the clock of Request::arrival_seconds.
  void ExpireOverdue(double now) { Do(command::Expire{now}); }

  /// Ends every request with an error, because the workers are gone.
  void FailAll(const std::string& message);

  /// Forgets every request without a word to its sink, and what is outstanding.
  void DropAll();

  /// A new worker group begins: nothing computed so far exists any more, no outstanding result will come, and step
  /// numbers restart. Requests go on from their delivered tokens, but for those that were computed alone when groups
  /// were lost (max_lost_epochs) and those that a smaller pool cannot hold: they end with an error.
  void StartEpoch(EpochId epoch, const PoolSizes& pools) { Do(command::StartEpoch{epoch, pools}); }
  void StartEpoch(EpochId epoch) { StartEpoch(epoch, blocks_.sizes()); }

  /// The null block and the least number of others with which every request that is here can run to its end, if a state
  /// takes so many of them.
  int BlocksNeeded(int state_blocks) const;

  /// Seconds that moving one block between device and host takes, as the workers measured it.
  void SetSwapSpeed(double seconds_per_block) { Do(command::SetSwapSpeed{seconds_per_block}); }

  /// The prefix cache, by hand: forget everything, or keep a prompt's cached blocks until a time.
  void FlushCache() { Do(command::FlushCache{}); }
  std::optional<uint64_t> PinPrefix(const std::string& salt, const std::vector<TokenId>& tokens,
                                    double expires_seconds) {
    return Do(command::PinPrefix{salt, tokens, expires_seconds});
  }
  bool Unpin(uint64_t pin) { return Do(command::Unpin{pin}); }

  /// Other options from now on, for the requests that are here, too. Without prefix caching what is cached is forgotten
  /// and pins end; with it blocks that are computed from then on, or in use, can be found again.
  void ChangeOptions(const LiveOptions& options) { Do(command::ChangeOptions{options}); }

  // A request goes from one engine to another with Depart here and Adopt there; its blocks are held under a ticket on
  // both sides while they are copied. New epochs end all tickets.

  /// The request goes on, and the leading blocks of its only sequence that are full of computed tokens, max_blocks at
  /// most, stay as they are under the ticket. Empty when it has none, or they alone are of no use, or it is gone.
  std::vector<BlockId> Share(RequestId id, uint64_t ticket, int max_blocks) {
    return Do(command::Share{id, ticket, max_blocks});
  }
  /// Takes a request out; nothing when there is no such one. Without a ticket (0), or when its blocks are more than
  /// max_blocks or than the host has room for, nothing that was computed comes along, but for `num_copied` blocks that
  /// were shared before. What outstanding steps draw for it is dropped and drawn again.
  std::optional<Departure> Depart(RequestId id, uint64_t ticket, int max_blocks, int num_copied = 0) {
    return Do(command::Depart{id, ticket, max_blocks, num_copied});
  }
  /// Sets blocks aside for one that comes. False when there are not so many, or nothing could be made of them.
  bool Reserve(uint64_t ticket, int num_blocks, MigrationWay way) {
    return Do(command::Reserve{ticket, num_blocks, way});
  }
  /// Nobody reads or writes the ticket's blocks any more. Unknown ones are ignored.
  void ReleaseTicket(uint64_t ticket) { Do(command::ReleaseTicket{ticket}); }
  /// Takes a request in that left another engine, with the blocks that were copied into the ticket's first ones
  /// (`blocks`: as Share or Depart named them there), or to be computed again. The reason when it can never run here;
  /// then the request stays with the caller. One that nobody waits for any more is dropped.
  std::optional<std::string> Adopt(std::unique_ptr<Request>& request, uint64_t ticket,
                                   std::span<const BlockId> blocks) {
    return Do(command::Adopt{request, ticket, blocks});
  }

  /// Told of every command and of every decision; null for nobody. Outlives the engine.
  void set_observer(EngineObserver* observer);
  /// Told of every decision, like the observer, and of nothing else; null for nobody. Outlives the engine.
  void set_watcher(DecisionLog* watcher);

  const Scheduler& scheduler() const { return scheduler_; }
  const BlockManager& blocks() const { return blocks_; }
  const EngineOptions& options() const { return options_; }
  const EngineStats& stats() const { return stats_; }
  const std::map<RequestId, std::unique_ptr<Request>>& requests() const { return requests_; }
  bool idle() const { return requests_.empty(); }
  EpochId epoch() const { return epoch_; }
  /// Plans whose results are not in; also of an idle engine, when their requests have ended early.
  int num_outstanding() const { return scheduler_.num_outstanding(); }

 private:
  struct Deadline {
    double seconds;
    RequestId request;
    bool operator>(const Deadline& other) const { return seconds > other.seconds; }
  };

  std::optional<std::string> Do(const command::Submit& c);  // each does what the public call says
  void Do(const command::Cancel& c);
  const StepPlan* Do(const command::Plan& c);
  void Do(const command::Commit& c);
  void Do(const command::Expire& c);
  void Do(const command::StartEpoch& c);
  void Do(const command::SetSwapSpeed& c);
  void Do(const command::FlushCache& c);
  std::optional<uint64_t> Do(const command::PinPrefix& c);
  bool Do(const command::Unpin& c);
  std::vector<BlockId> Do(const command::Share& c);
  std::optional<Departure> Do(const command::Depart& c);
  bool Do(const command::Reserve& c);
  void Do(const command::ReleaseTicket& c);
  std::optional<std::string> Do(const command::Adopt& c);
  void Do(const command::ChangeOptions& c);
  void Tell(const Command& command, const CommandOutcome& outcome = {}) const {
    if (observer_ != nullptr) observer_->OnCommand(command, outcome);
  }

  std::optional<std::string> ReasonToRefuse(const Request& request) const;
  void AbortBroken(const std::vector<SampledToken>& tokens, const std::vector<PromptScores>& scores);
  void AbortDrawn(SlotId slot, RequestError error, const std::string& message);
  void DeliverScores(const std::vector<PromptScores>& scores);
  void Deliver(Request& request, Sequence& sequence, const SampledToken& drawn);
  void AdvanceBeams(Request& request, std::span<const Scheduler::Drawn> drawn);
  void DeliverBeams(Request& request);
  std::optional<FinishReason> ReasonToFinish(const Request& request, const Sequence& sequence, TokenId token) const;
  void Count(FinishReason reason);
  void EndWithError(Request& request, RequestError error, const std::string& message);
  std::string ReasonToGiveUp(const Request& request) const;
  double MaxSeconds(const Request& request) const;
  void RestoreDeadlines(const Request& request);
  void Erase(RequestId id);

  EngineOptions options_;
  BlockManager blocks_;
  Scheduler scheduler_;
  std::map<RequestId, std::unique_ptr<Request>> requests_;
  std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>> deadlines_;  // may name ended requests
  EngineStats stats_;
  EpochId epoch_ = 1;
  StepId step_ = 0;
  SequenceId next_sequence_id_ = 1;
  std::vector<RequestId> finished_;  // in the commit that is going on; likewise
  std::vector<StoppedChoice> stopped_;
  EngineObserver* observer_ = nullptr;
  DecisionTee decisions_;  // to the observer, then to the watcher

  friend class EngineArchive;
};

}  // namespace quire
