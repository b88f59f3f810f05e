#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "comm/model/model_spec.h"
#include "comm/wire/messages.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/rank_engine.h"
#include "worker/engine/sequence_table.h"
#include "worker/serve/grammar_store.h"
#include "worker/serve/plans_in_flight.h"

namespace quire {

/// Turns step plans into results for one rank. Checks each plan against the previous plans, owns the table of running
/// sequences, and lets the engine compute. Uses no sockets.
class StepExecutor {
 public:
  StepExecutor(const ModelSpec& spec, const EngineSizes& sizes, Rank rank, std::unique_ptr<RankEngine> engine);

  const RankEngine& engine() const { return *engine_; }

  /// Sets what grammars need. Call this before the first sequence with a grammar.
  void SetVocabulary(Vocabulary vocabulary, const GrammarMemory& memory = {});
  /// Returns the store of grammars; null before SetVocabulary.
  GrammarStore* grammars() { return grammars_.get(); }

  /// Compiles an announced grammar while steps run, or drops a grammar that no further sequence will use.
  void FollowGrammarOrder(const Frame& order);
  void EndGrammars();

  /// Lets later plans name an adapter that was loaded while the worker serves; null: later plans must not name the
  /// adapter (RankEngine::SetAdapter).
  void SetAdapter(int number, std::shared_ptr<const AdapterShard> shard);

  /// Calls RankEngine::AllocateBlocks and returns its result. A sequence's state takes `state_blocks` blocks; throws
  /// Error if a state does not fit.
  int64_t AllocateBlocks(int num_blocks, int num_host_blocks = 0, int state_blocks = 0);

  /// The memory of pool or host blocks, for transfers to and from other workers. `carrier` moves device memory; it is
  /// null for host memory. Lend and LendToFill throw Error for unknown block ids.
  struct LentBlocks {
    std::vector<std::span<std::byte>> memory;
    DeviceCarrier* carrier;
  };
  LentBlocks Lend(const std::vector<BlockId>& blocks, bool on_device);
  /// Lends the blocks, so that bytes from other workers can be written into them.
  LentBlocks LendToFill(const std::vector<BlockId>& blocks, bool on_device);
  /// Returns the number of blocks that a sequence's state takes; 0: the model has no states.
  int state_blocks() const { return state_blocks_; }
  /// Returns the memory of unused blocks to the system. `runs` has a first block and a count for each run of device
  /// blocks or host blocks. The executor must be idle. Throws Error for unknown blocks.
  void FreeBlocks(const std::vector<BlockId>& runs, bool on_device);
  /// Copies device blocks to host blocks. The executor must be idle. Throws Error for unknown block ids.
  void SwapOut(const std::vector<BlockCopyPair>& moves);

  /// True when another plan may be accepted, even while earlier plans are running.
  bool can_accept() const { return !next_ && engine_->CanBegin(false); }
  bool idle() const { return in_flight_.empty(); }
  /// Returns the number of plans whose steps have begun but not ended.
  int num_in_flight() const { return static_cast<int>(in_flight_.size()); }

  /// Decodes, checks and stores a plan; Begin starts its step. Throws Error if the plan contradicts the previous plans.
  void Accept(const Frame& plan_frame);
  /// True when the accepted plan's step may begin now. It may not while the step needs tokens that a step in flight
  /// will sample; call Finish first.
  bool can_begin() const;
  /// Starts the accepted plan's step. Requires can_begin().
  void Begin();
  /// True when the result of the oldest plan in flight is ready.
  bool Done() { return engine_->Done(); }
  /// Waits for the oldest plan in flight and returns its result.
  StepResult Finish();

  /// Calls Accept, Begin and Finish, and returns the result. No plan may be in flight.
  StepResult Execute(const Frame& plan_frame);

 private:
  void Guess(PlanInFlight& step, StepResult& result);

  int32_t vocab_size_, pass_stages_;
  EngineSizes sizes_;
  Rank rank_;
  std::unique_ptr<RankEngine> engine_;
  std::unique_ptr<GrammarStore> grammars_;
  SequenceTable table_;
  std::optional<AcceptedPlan> next_;
  std::deque<PlanInFlight> in_flight_;
  int num_blocks_ = 0, num_host_blocks_ = 0, state_blocks_ = 0;
  EpochId epoch_ = 0;
  StepId last_step_ = 0;
  std::vector<int32_t> later_adapters_;  // numbers of adapters loaded while the worker serves
  std::chrono::steady_clock::time_point last_finish_;
};

}  // namespace quire
