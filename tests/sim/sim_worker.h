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

/// A worker without arithmetic. Frame checks and the sequence table are real. Each slot of a KV block holds a hash
/// instead of keys and values. A query reads its whole context through the block table. It is a violation if a slot has
/// the hash of another prefix, as in an aliased, stale, lost or prematurely freed block. States are checked likewise: a
/// chunk must find the state of exactly the tokens before it, and must leave the state after its own tokens, without
/// wrong draft tokens.
class SimWorker {
 public:
  SimWorker(const PlanLimits& limits, int sliding_window, int64_t max_kept_rows = 0);

  /// Runs a plan. Throws Error for a frame or plan that a worker must refuse, and Violation for wrong KV contents.
  StepResult Execute(const Frame& frame);

  /// Sets the numbers of the adapters that were loaded after the start. Sequences may name these from now on.
  void SetAdapters(const std::vector<int32_t>& adapters) { limits_.later_adapters = adapters; }

  /// Copies to the host the blocks of a request that leaves this worker. Copy later moves the blocks from host to host,
  /// or from device to device, to the blocks in which another worker would receive them.
  void SwapOut(const std::vector<BlockCopyPair>& moves) { Move(moves, device_, host_); }
  void Copy(const std::vector<BlockCopyPair>& pairs, MigrationWay way) {
    std::vector<KvValue>& pool = way == MigrationWay::kHost ? host_ : device_;
    Move(pairs, pool, pool);
  }

  /// Read returns the values of a whole device block, and Fill sets them. Blocks go to a store and come back this way.
  std::vector<KvValue> Read(BlockId block) const;
  void Fill(BlockId block, const std::vector<KvValue>& values);
  /// Returns the values of a whole host block.
  std::vector<KvValue> ReadHost(BlockId block) const;

  const SequenceState& sequence(SlotId slot) const { return table_.at(slot); }
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
  void CheckWhole(const BatchMember& member) const;
  BatchMember TextOf(const BatchMember& member) const;
  void CheckKeptRows() const;
  void CheckState(const BatchMember& member, int num_tokens);
  void WriteState(const BatchMember& member, int num_tokens);
  void DrawFor(const BatchMember& member, std::vector<SampledToken>& drawn) const;
  PromptScores ScoresOf(const BatchMember& member) const;
  void Pool(const std::vector<BatchMember>& batch, std::vector<SampledToken>& tokens);

  PlanLimits limits_;
  int window_;
  int64_t max_kept_rows_;  // most tokens of prompts whose passes have begun and not ended
  SequenceTable table_;
  Pooler pooler_{1};
  std::vector<KvValue> device_, host_;  // [blocks, block_size]
  EpochId epoch_ = 0;
  StepId last_step_ = 0;
};

}  // namespace quire::sim
