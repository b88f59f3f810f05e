#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/collective/device_carrier.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// What a step came to.
struct ComputedStep {
  std::vector<SampledToken> tokens;  // of the members that draw, in batch order
  std::vector<PromptScores> scores;  // of the members that score, in batch order; rank 0's at least
  uint32_t swap_micros = 0;          // moving blocks to and from the host
};

/// One rank's model, KV blocks and sampling on one kind of device. Steps run in the order of their plans. Every rank of
/// a group makes the same calls.
class RankEngine {
 public:
  virtual ~RankEngine() = default;

  /// What computes, for people: "avx2", "NVIDIA H200".
  virtual std::string device() const = 0;
  virtual int64_t weight_bytes() const = 0;
  /// What whoever reads the log should know of how the weights are kept: sentences.
  virtual std::vector<std::string> notes() const { return {}; }
  virtual int64_t block_bytes() const = 0;  // of one block, all layers
  /// Of that: what the keys, or the values, of a kv head of so many numbers take. They lie as KvLayout says.
  virtual int64_t kv_head_bytes(int64_t head_dim) const = 0;
  /// Of one sequence's state, on this rank; 0: the model has none. It is kept in as many blocks of the pool as hold it
  /// on every rank (SequenceState::state); a chunk that begins at position 0 begins with zeros, whatever is there.
  virtual int64_t state_bytes() const { return 0; }
  /// Bytes that KV blocks may take, everything else that the engine will ever need set aside.
  virtual int64_t available_bytes() const = 0;

  /// Reserves the KV blocks and, for swapping, those on the host (null blocks counted in; 0: none). Before the first
  /// step. Returns the nanoseconds that moving a block to the host or back takes; 0 without host blocks.
  virtual int64_t AllocateBlocks(int num_blocks, int num_host_blocks) = 0;

  /// Moves blocks to the host at once. No step is under way.
  virtual void SwapOut(const std::vector<BlockCopyPair>& pairs) = 0;
  /// The memory of a host block: what SwapOut and plans moved there, once that is done.
  virtual std::span<std::byte> HostBlock(BlockId block) = 0;
  /// The memory of a block of the pool, on the device.
  virtual std::span<std::byte> PoolBlock(BlockId block) = 0;
  /// By what such memory goes to other ranks; null where it is the host's.
  virtual DeviceCarrier* carrier() { return nullptr; }

  /// True when a step may be begun now. Some engines take the next one while the last is under way; its members whose
  /// last token is not known yet have kPendingToken in the table.
  virtual bool CanBegin() const = 0;
  /// Starts a step: blocks move, then the batch is computed. `table` is as the plan left it; the arguments need not
  /// outlive the call.
  virtual void Begin(const StepPlan& plan, const std::vector<BatchMember>& batch, const SequenceTable& table) = 0;
  /// True when Finish() will not have to wait.
  virtual bool Done() = 0;
  /// The outcome of the oldest step begun; its drawn tokens are still pending in `table`.
  virtual ComputedStep Finish(const SequenceTable& table) = 0;
};

}  // namespace quire
