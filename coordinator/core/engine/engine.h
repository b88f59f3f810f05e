#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>

#include "coordinator/core/engine/engine_observer.h"
#include "coordinator/core/schedule/scheduler.h"

namespace quire {

struct EngineOptions {
  SchedulerLimits scheduler;
  BlockManagerOptions blocks;
  int max_model_len = 0;  // tokens per sequence, prompt and generated together
  int vocab_size = INT32_MAX;
  double max_wait_seconds = 60;      // time allowed between arrival and the first step
  double max_request_seconds = 600;  // time allowed between arrival and the last token
  int max_lost_epochs = 3;           // lost worker groups in a row after which a request computed alone fails; 0: never
  bool plan_ahead = true;            // plan and send one step while the previous one is outstanding
  DraftOptions drafts;
};

struct EngineStats {
  int64_t prompt_tokens = 0;  // prompt tokens of requests accepted into the queue
  int64_t generated_tokens = 0;
  int64_t computed_tokens = 0;                         // recomputed tokens count again
  int64_t ended_prompt_tokens = 0, cached_tokens = 0;  // totals of ended requests; cached: from the prefix cache
  int64_t steps = 0;
  int64_t finished_stop = 0, finished_length = 0, finished_abort = 0;  // number of choices, by finish reason
  std::array<DraftCounts, kDraftSources> drafts = {};                  // counts of drafts for each DraftSource

  DraftCounts all_drafts() const {
    DraftCounts all;
    for (const DraftCounts& each : drafts) all.Add(each);
    return all;
  }
};

/// A request that leaves an engine for another engine.
struct Departure {
  std::unique_ptr<Request> request;
  std::vector<BlockCopyPair> moves;  // device-to-host copies; made before the next plan and before the blocks are sent
  std::vector<BlockId> blocks;       // host blocks held under the ticket; empty: no computed blocks come along
};

/// The state of serving and its transitions: requests and step results go in, step plans and tokens come out. The
/// engine is a single-threaded event handler without sockets, files or clocks, so the simulator runs the same code. The
/// caller sends every plan from NextPlan and calls CommitStep once per plan, in the order of the plans. NextPlan may be
/// called at any time; it returns null while the maximum number of plans is outstanding. Other methods may be called in
/// between. Equal calls with equal arguments give equal plans.
class Engine {
 public:
  explicit Engine(const EngineOptions& options);

  /// Executes a command. Every input is a command, except FailAll and DropAll, which end all requests. Most methods
  /// below build one command and return its result.
  void Apply(const Command& command) {
    std::visit([this](const auto& each) { Do(each); }, command);
  }

  /// Queues a request whose sequences already hold the prompt. Returns the reason if the request can never run, because
  /// it is too long for the model, the pool or its client's limits; else returns nothing.
  std::optional<std::string> Submit(std::unique_ptr<Request> request) { return Do(command::Submit{request}); }

  /// Drops a request and frees its blocks; its sink gets no further call. Ids of finished requests are ignored.
  void Cancel(RequestId id) { Do(command::Cancel{id}); }

  /// Reports the error to the request's sink, then cancels the request.
  void Abort(RequestId id, RequestError error, const std::string& message);

  /// Returns the next step to send. Returns null when there is no work, when all work must wait for an outstanding
  /// result, or while the most plans are outstanding. The plan is valid until the next call of any method. `now`:
  /// seconds on any steady clock.
  const StepPlan* NextPlan(double now) { return Do(command::Plan{now}); }

  /// True when `tokens` are those that the oldest outstanding plan must sample, and every id is in the vocabulary.
  bool Fits(const std::vector<SampledToken>& tokens) const;

  /// True when `scores` match the prompt tokens that the oldest outstanding plan scores.
  bool Fits(const std::vector<PromptScores>& scores) const;

  /// True when `guesses`, the drafts of the draft model, match the orders of the oldest outstanding plan, and every
  /// token is in the vocabulary.
  bool Fits(const std::vector<Draft>& guesses) const;

  /// Takes the result of the oldest outstanding plan: appends and delivers the sampled tokens and ends complete
  /// sequences. A request whose result has no valid token or score, such as NaN, ends with an error. Tokens of
  /// sequences that ended after the plan was made are dropped. `scores` influence no decision and may be omitted when
  /// no sink needs them. The next step verifies `guesses`, the drafts of the draft model.
  void CommitStep(const std::vector<SampledToken>& tokens, StepTimes times = {},
                  const std::vector<PromptScores>& scores = {}, const std::vector<Draft>& guesses = {}) {
    Do(command::Commit{tokens, times, scores, guesses});
  }

  /// Ends requests that waited or ran too long. `now` is on the clock of Request::arrival_seconds.
  void ExpireOverdue(double now) { Do(command::Expire{now}); }

  /// Ends every request with an error, because the workers have been given up.
  void FailAll(const std::string& message);

  /// Discards every request and every outstanding step without telling the sinks.
  void DropAll();

  /// Starts again with a new worker group, whose pipeline has num_stages stages. The KV cache is empty, results of
  /// outstanding steps no longer come, and step numbers start from the beginning. Requests continue after their
  /// delivered tokens. Two kinds of requests end with an error instead: requests that were the only computed request
  /// when groups were lost, max_lost_epochs times; and requests that the new pool cannot hold.
  void StartEpoch(EpochId epoch, const PoolSizes& pools, int num_stages) {
    Do(command::StartEpoch{epoch, pools, num_stages});
  }
  void StartEpoch(EpochId epoch, const PoolSizes& pools) { StartEpoch(epoch, pools, options_.scheduler.num_stages); }
  void StartEpoch(EpochId epoch) { StartEpoch(epoch, blocks_.sizes()); }

  /// Returns the smallest number of blocks, the null block included, with which each present request could finish
  /// alone, if one state takes `state_blocks` blocks.
  int BlocksNeeded(int state_blocks) const;

  /// Sets the seconds that workers measured for moving one block between device and host.
  void SetSwapSpeed(double seconds_per_block) { Do(command::SetSwapSpeed{seconds_per_block}); }

  /// Commands of an operator for the prefix cache. FlushCache forgets all cached content and all earlier answers, and
  /// ends all pins. PinPrefix pins a prompt's cached blocks until expires_seconds (on the clock of ExpireOverdue). It
  /// returns the pin's id; nullopt when it could not pin the blocks.
  void FlushCache() { Do(command::FlushCache{}); }
  std::optional<uint64_t> PinPrefix(const std::string& salt, const std::vector<TokenId>& tokens,
                                    double expires_seconds) {
    return Do(command::PinPrefix{salt, tokens, expires_seconds});
  }
  bool Unpin(uint64_t pin) { return Do(command::Unpin{pin}); }

  /// Takes new options, which also apply to present requests from now on. Switching prefix caching off forgets cached
  /// blocks and ends pins. After switching it on, blocks in use or computed later can be found again.
  void ChangeOptions(const LiveOptions& options) { Do(command::ChangeOptions{options}); }

  // Migration: Depart takes a request out of one engine, and Adopt puts it into another. While the request's blocks are
  // copied, a ticket holds them in both engines. A new epoch ends all tickets.

  /// Holds the leading full computed blocks of a running request under the ticket, at most max_blocks. The request
  /// continues. Returns the blocks. Returns no blocks when the request has ended, has several sequences or has no full
  /// block, or when it needs more than full blocks to continue (states, sliding window, pooling).
  std::vector<BlockId> Share(RequestId id, uint64_t ticket, int max_blocks) {
    return Do(command::Share{id, ticket, max_blocks});
  }
  /// Takes a request out of the engine; returns nothing for unknown ids. Computed blocks come along only with a ticket
  /// (not 0), if they are at most max_blocks and the host has free blocks. Otherwise only `num_copied` blocks, which
  /// were shared earlier, count as taken along. Tokens that outstanding steps sample for the request are dropped and
  /// sampled again.
  std::optional<Departure> Depart(RequestId id, uint64_t ticket, int max_blocks, int num_copied = 0) {
    return Do(command::Depart{id, ticket, max_blocks, num_copied});
  }
  /// Reserves blocks, under the ticket, for a request that will arrive. Returns false when too few blocks are free, or
  /// when the engine could not use blocks that arrive this way.
  bool Reserve(uint64_t ticket, int num_blocks, MigrationWay way) {
    return Do(command::Reserve{ticket, num_blocks, way});
  }
  /// Ends the ticket and gives its blocks back. Call it when the blocks have been copied. Unknown tickets are ignored.
  void ReleaseTicket(uint64_t ticket) { Do(command::ReleaseTicket{ticket}); }
  /// Takes over a request that left another engine. `blocks` are the ids that Share or Depart returned there; the
  /// ticket's first blocks have their contents. Without blocks the request is computed again. Returns the reason if
  /// this engine can never run the request, and otherwise nothing. With a reason, the caller still owns the request. A
  /// request whose client has left (RequestSink::Abandoned) is dropped.
  std::optional<std::string> Adopt(std::unique_ptr<Request>& request, uint64_t ticket,
                                   std::span<const BlockId> blocks) {
    return Do(command::Adopt{request, ticket, blocks});
  }

  // Copies of blocks go to a store outside of the pools and come back (engine_store.cc). ReleaseTicket ends a ticket
  // early.

  /// Holds cached blocks under the ticket, so that they are not reused while they are copied. Returns false and holds
  /// no block when one of them is no longer cached.
  bool HoldCached(uint64_t ticket, std::span<const BlockId> blocks) { return Do(command::HoldCached{ticket, blocks}); }
  /// Reserves blocks, under the ticket, for stored blocks of a prompt. `tokens` fill whole blocks. The first `prefix`
  /// of these blocks must be in this engine's cache already; the ticket holds them, too, before the reserved blocks.
  /// When the prefix covers all tokens, the blocks of the state after them are reserved. Returns false when the prefix
  /// is not cached, too few blocks are free, prefix caching is off, or the state is cached already.
  bool ReserveForStored(uint64_t ticket, const std::string& salt, int adapter, const std::vector<TokenId>& tokens,
                        int prefix) {
    return Do(command::ReserveForStored{salt, tokens, adapter, ticket, prefix});
  }
  /// Makes arrived blocks findable and ends the ticket. `tokens` are the tokens of the prefix and of the blocks that
  /// arrived, which may be fewer than were reserved. When the state after the prefix arrived, `tokens` are the tokens
  /// of the prefix alone. Nothing becomes findable if the prefix has left the cache.
  void CacheStored(uint64_t ticket, const std::string& salt, int adapter, const std::vector<TokenId>& tokens,
                   int prefix) {
    Do(command::CacheStored{salt, tokens, adapter, ticket, prefix});
  }

  // LoRA adapters that are loaded while the server runs (engine_adapters.cc). A request is set aside while the ranks
  // lack its adapter. The ranks of a new epoch start without these adapters.

  /// Lets the adapter's requests into the scheduler. Call it when all ranks have the adapter.
  void AdapterCame(int adapter) { Do(command::AdapterCame{adapter}); }
  /// Takes the adapter's requests out of the scheduler; they wait until AdapterCame. Call it before the ranks drop the
  /// adapter.
  void AdapterGone(int adapter) { Do(command::AdapterGone{adapter}); }
  bool HasAdapter(int adapter) const { return adapter <= kMostListedAdapters || adapters_.contains(adapter); }

  /// Sets the observer, which gets every command and every decision; null: no observer. The observer must outlive the
  /// engine.
  void set_observer(EngineObserver* observer);
  /// Sets the watcher, which gets every decision and nothing else; null: no watcher. The watcher must outlive the
  /// engine.
  void set_watcher(DecisionLog* watcher);
  /// Adds a listener, which is called when blocks enter or leave the prefix cache. The listener must outlive the engine
  /// or be removed.
  void AddCacheListener(CacheListener* listener) { blocks_.prefixes().AddListener(listener); }
  void RemoveCacheListener(CacheListener* listener) { blocks_.prefixes().RemoveListener(listener); }
  /// Replaces the proposer of drafts. The proposer must outlive the engine.
  void set_proposer(DraftProposer* proposer) { scheduler_.SetProposer(proposer, options_.drafts); }

  const Scheduler& scheduler() const { return scheduler_; }
  const BlockManager& blocks() const { return blocks_; }
  const EngineOptions& options() const { return options_; }
  const EngineStats& stats() const { return stats_; }
  const EarlierAnswers& earlier_answers() const { return answers_; }
  const std::map<RequestId, std::unique_ptr<Request>>& requests() const { return requests_; }
  /// Returns the ids of the engine's background requests, which are set aside while other requests exist.
  const std::set<RequestId>& background() const { return background_; }
  bool idle() const { return requests_.empty(); }
  EpochId epoch() const { return epoch_; }
  /// Returns the number of plans without a committed result. An idle engine may have such plans, when requests ended
  /// early.
  int num_outstanding() const { return scheduler_.num_outstanding(); }

 private:
  struct Deadline {
    double seconds;
    RequestId request;
    bool operator>(const Deadline& other) const { return seconds > other.seconds; }
  };

  std::optional<std::string> Do(const command::Submit& c);  // each does what the public method for its command says
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
  bool Do(const command::HoldCached& c);
  bool Do(const command::ReserveForStored& c);
  void Do(const command::CacheStored& c);
  void Do(const command::AdapterCame& c);
  void Do(const command::AdapterGone& c);
  void Tell(const Command& command, const CommandOutcome& outcome = {}) const {
    if (observer_ != nullptr) observer_->OnCommand(command, outcome);
  }

  std::optional<std::string> ReasonToRefuse(const Request& request) const;
  void AbortBroken(const std::vector<SampledToken>& tokens, const std::vector<PromptScores>& scores);
  void AbortDrawn(SlotId slot, RequestError error, const std::string& message);
  void ObserveTimes(const command::Commit& c);
  void DeliverScores(const std::vector<PromptScores>& scores);
  void Deliver(const Scheduler::Drawn& drawn);
  std::optional<FinishReason> Deliver(Request& request, int choice, int num_generated, const SampledToken& drawn);
  void AdvanceBeams(Request& request, std::span<const Scheduler::Drawn> drawn);
  void DeliverBeams(Request& request);
  void CountGenerated(Request& request, int tokens);
  void CountDrafts(const Scheduler::Drawn& drawn, int num_delivered);
  void Remember(const Request& request, const Sequence& sequence);
  static std::optional<FinishReason> ReasonToFinish(const Request& request, int num_generated, TokenId token);
  void Count(FinishReason reason);
  void EndWithError(Request& request, RequestError error, const std::string& message);
  std::string ReasonToGiveUp(const Request& request) const;
  double MaxSeconds(const Request& request) const;
  void RestoreDeadlines(const Request& request);
  void TellDrafts(const Request& request);
  void Erase(RequestId id);

  // The next functions keep requests out of the scheduler if the ranks lack their adapter (engine_adapters.cc).
  void SetAside(Request& request);
  void SetAsideWithoutAdapter();
  bool AllSetAside() const;

  // The next functions set background requests aside while other requests are present (engine_background.cc).
  bool HasOthers() const { return requests_.size() > background_.size(); }
  bool MakesWay(const Request& added) const;
  bool StaysAside(Request& added);
  void TakeUpBackground();
  void LeaveScheduler(Request& request);

  EngineOptions options_;
  BlockManager blocks_;
  Scheduler scheduler_;
  EarlierAnswers answers_;
  RepeatProposer repeats_;
  std::map<RequestId, std::unique_ptr<Request>> requests_;
  std::set<RequestId> background_;  // ids in requests_
  std::set<int> adapters_;          // numbers of the adapters, loaded while the server runs, that all ranks have
  std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>> deadlines_;  // may name ended requests
  EngineStats stats_;
  EpochId epoch_ = 1;
  StepId step_ = 0;
  SequenceId next_sequence_id_ = 1;
  std::vector<RequestId> finished_;  // filled during a commit, like stopped_; empty between calls
  std::vector<StoppedChoice> stopped_;
  EngineObserver* observer_ = nullptr;
  DecisionTee decisions_;  // forwards to the observer, then to the watcher

  friend class EngineArchive;
};

}  // namespace quire
