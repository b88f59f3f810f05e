#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "comm/model/model_spec.h"
#include "comm/wire/messages.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/rank_engine.h"
#include "worker/engine/sequence_table.h"
#include "worker/serve/grammar_store.h"

namespace quire {

/// One rank's way from plans to results: checks each plan against what came before, keeps the sequences that run, and
/// leaves the computing to its engine. Knows no sockets.
class StepExecutor {
 public:
  StepExecutor(const ModelSpec& spec, const EngineSizes& sizes, Rank rank, std::unique_ptr<RankEngine> engine);

  const RankEngine& engine() const { return *engine_; }

  /// What grammars are made for; before the first sequence that has one.
  void SetVocabulary(Vocabulary vocabulary);
  /// Null before SetVocabulary.
  GrammarStore* grammars() { return grammars_.get(); }

  void EndGrammars();

  /// RankEngine::AllocateBlocks. A sequence's state takes state_blocks of them.
  int64_t AllocateBlocks(int num_blocks, int num_host_blocks = 0, int state_blocks = 0);

  /// The memory of blocks, of the pool or of the host's, for another worker's blocks or for their way there, and by
  /// what it goes if that is not the host's. Throws Error on ids that are not.
  struct LentBlocks {
    std::vector<std::span<std::byte>> memory;
    DeviceCarrier* carrier;
  };
  LentBlocks Lend(const std::vector<BlockId>& blocks, bool on_device);
  /// Moves blocks to the host. The executor is idle. Throws Error on ids that are not.
  void SwapOut(const std::vector<BlockCopyPair>& moves);

  /// True when another plan may be begun, or none is under way.
  bool can_begin() const { return engine_->CanBegin(); }
  bool idle() const { return in_flight_.empty(); }

  /// Decodes and checks a plan and starts it. Throws Error on a plan that does not fit what came before.
  void Begin(const Frame& plan_frame);
  /// True when the oldest plan's result is there.
  bool Done() { return engine_->Done(); }
  /// Waits for the oldest plan's result.
  StepResult Finish();

  /// Begin and Finish.
  StepResult Execute(const Frame& plan_frame);

 private:
  struct InFlight {
    StepResult result;
    std::vector<PendingDraw> draws;
    std::chrono::steady_clock::time_point begin;
  };

  int32_t vocab_size_;
  EngineSizes sizes_;
  Rank rank_;
  std::unique_ptr<RankEngine> engine_;
  std::unique_ptr<GrammarStore> grammars_;
  SequenceTable table_;
  std::deque<InFlight> in_flight_;
  int num_blocks_ = 0, num_host_blocks_ = 0, state_blocks_ = 0;
  EpochId epoch_ = 0;
  StepId last_step_ = 0;
  std::chrono::steady_clock::time_point last_finish_;
};

}  // namespace quire
