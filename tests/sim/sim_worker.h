#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "coordinator/core/migration_way.h"
#include "tests/sim/virtual_model.h"
#include "worker/engine/sequence_table.h"
#include "worker/sampling/pooler.h"

namespace quire::sim {

/// A worker without arithmetic: the real frame checks and sequence table, and KV blocks in which every slot holds what
/// its keys and values would stand for. A query reads its whole context through the block table; anything that is not
/// exactly its own prefix (aliased, stale, lost or early freed blocks) is a violation. So it is with states: what a
/// chunk finds in its blocks must be the state of exactly the tokens before it, and what it leaves there that of all.
class SimWorker {
 public:
  SimWorker(const PlanLimits& limits, int sliding_window);

  /// Runs a plan. Throws Error on a frame or plan that a worker must refuse, Violation on broken KV contents.
  StepResult Execute(const Frame& frame);

  /// Blocks of a request that leaves go to the host; later, what is there, or on the device, goes to where another
  /// worker would get it.
  void SwapOut(const std::vector<BlockCopyPair>& moves) { Move(moves, device_, host_); }
  void Copy(const std::vector<BlockCopyPair>& pairs, MigrationWay way) {
    std::vector<KvValue>& pool = way == MigrationWay::kHost ? host_ : device_;
    Move(pairs, pool, pool);
  }

  const std::vector<BlockId>& blocks(SlotId slot) const { return table_.at(slot).blocks; }
  const std::vector<BlockId>& state(SlotId slot) const { return table_.at(slot).state; }

  struct Violation {
    std::string what;
  };

 private:
  KvValue& Slot(BlockId block, int offset) { return device_[static_cast<size_t>(block * limits_.block_size + offset)]; }
  void Move(const std::vector<BlockCopyPair>& pairs, const std::vector<KvValue>& from, std::vector<KvValue>& to) const;
  void Write(const BatchMember& member);
  void CheckContext(const BatchMember& member);
  void CheckState(const BatchMember& member, int num_tokens);
  void WriteState(const BatchMember& member);
  SampledToken DrawFor(const BatchMember& member) const;
  PromptScores ScoresOf(const BatchMember& member) const;
  void Pool(const std::vector<BatchMember>& batch, std::vector<SampledToken>& tokens);

  PlanLimits limits_;
  int window_;
  SequenceTable table_;
  Pooler pooler_{1};
  std::vector<KvValue> device_, host_;  // [blocks, block_size]
  EpochId epoch_ = 0;
  StepId last_step_ = 0;
};

}  // namespace quire::sim
