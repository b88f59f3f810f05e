#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/base/error.h"
#include "comm/collective/device_carrier.h"
#include "comm/wire/working_memory.h"
#include "worker/engine/adapter_shard.h"
#include "worker/engine/sequence_table.h"

namespace quire {

class AdapterFiles;
class ModelFiles;

/// The result of one step.
struct ComputedStep {
  std::vector<SampledToken> tokens;  // one for each batch member that samples, in batch order
  std::vector<PromptScores> scores;  // one for each batch member that scores, in batch order; at least on rank 0
  uint32_t swap_micros = 0;          // microseconds spent on moving blocks to and from the host
};

/// The model shard, KV blocks and sampler of one rank on one kind of device. Steps run in the order of their plans.
/// Every rank of a group makes the same calls in the same order.
class RankEngine {
 public:
  virtual ~RankEngine() = default;

  /// Returns the name of the device that computes, as shown to people, for example "avx2" or "NVIDIA H200".
  virtual std::string device() const = 0;
  virtual int64_t weight_bytes() const = 0;
  virtual WorkingMemory working() const { return {}; }  // 0 on GPUs: not known
  /// Returns sentences for the log that say how the weights are stored.
  virtual std::vector<std::string> notes() const { return {}; }
  virtual int64_t block_bytes() const = 0;  // bytes of one KV block: all layers, and the draft model's part
  /// Returns how many bytes of a block, from the first on, belong to the served model; the draft model's part follows.
  virtual int64_t own_block_bytes() const { return block_bytes(); }
  /// Returns the bytes that the keys, or the values, of one KV head take in a block (KvLayout).
  virtual int64_t kv_head_bytes(int64_t head_dim) const = 0;
  virtual bool latents_once() const { return false; }  // see KvLayout
  /// Returns the bytes of one sequence's recurrent state on this rank, and of the draft model's parts of its blocks; 0:
  /// the model has no such state. The state lies in blocks of the KV pool (SequenceState::state), as many as every rank
  /// needs. A chunk that begins at position 0 starts from a zero state, whatever the blocks contain.
  virtual int64_t state_bytes() const { return 0; }
  /// Returns the number of LoRA adapters that were loaded with the model.
  virtual int num_adapters() const { return 0; }
  /// Reads this rank's part of a LoRA adapter of the given model. May run at the same time as all other calls, on any
  /// thread. Throws Error where the device does not support adapters.
  virtual std::shared_ptr<const AdapterShard> ReadAdapter(const ModelFiles&, const AdapterFiles&) const {
    Fail("{} computes with no LoRA adapters", device());
  }
  /// Lets sequences name the adapter by this number, above kMostListedAdapters, from the next step on. Null: no later
  /// sequence names the number, and the engine drops the adapter. `shard` comes from this engine's ReadAdapter.
  virtual void SetAdapter(int number, std::shared_ptr<const AdapterShard> shard) { (void)number, (void)shard; }
  virtual int64_t available_bytes() const = 0;  // free for blocks on the GPU; on CPUs free on the host

  /// Reserves the KV blocks and the host blocks that swapping uses. Both counts include the null block; 0 host blocks:
  /// no swapping. Call this before the first step. Returns the nanoseconds that moving one block to the host or back
  /// takes; 0 without host blocks.
  virtual int64_t AllocateBlocks(int num_blocks, int num_host_blocks) = 0;

  /// Copies device blocks to host blocks and returns when the copies are done. No step may be in flight.
  virtual void SwapOut(const std::vector<BlockCopyPair>& pairs) = 0;
  /// Returns the memory of a host block: own_block_bytes() bytes, which SwapOut and finished plans have filled.
  virtual std::span<std::byte> HostBlock(BlockId block) = 0;
  /// Returns the memory of a pool block on the device: own_block_bytes() bytes.
  virtual std::span<std::byte> PoolBlock(BlockId block) = 0;
  /// Gives the memory of `count` unused blocks from `first` on back to the system, until they are written again. Does
  /// nothing on devices that cannot. No step may be in flight.
  virtual void FreeBlocks(BlockId first, int count, bool on_device) { (void)first, (void)count, (void)on_device; }
  /// True when the pool lies in host memory.
  virtual bool pool_on_host() const { return true; }
  /// Marks the block as not read by a draft model. Call it before bytes of another worker are written into the block.
  virtual void WillReceive(BlockId block, bool on_device) { (void)block, (void)on_device; }
  /// Returns the carrier of pool blocks from this device to other ranks; null where the pool lies in host memory.
  virtual DeviceCarrier* carrier() { return nullptr; }

  /// True when Begin may be called now. Some engines accept further steps while earlier ones are in flight. A sequence
  /// whose last token is not sampled yet then ends in kPendingToken in the table. `computes_pending`: the step computes
  /// such a token.
  virtual bool CanBegin(bool computes_pending) const = 0;
  /// Starts a step: moves the blocks of the plan, then computes the batch. `table` is the state after
  /// SequenceTable::Apply(plan). The arguments need not outlive the call.
  virtual void Begin(const StepPlan& plan, const std::vector<BatchMember>& batch, const SequenceTable& table) = 0;
  /// True when Finish() will return without waiting.
  virtual bool Done() = 0;
  /// Returns the result of the oldest step in flight. Its sampled tokens are still pending in `table`.
  virtual ComputedStep Finish(const SequenceTable& table) = 0;

  /// Makes drafts with the draft model or prediction layer, for sequences whose last token is sampled but not computed
  /// yet. Returns at most one draft for each order, in the order of the orders. No step may be in flight.
  virtual std::vector<Draft> Guess(const std::vector<GuessOrder>&, const SequenceTable&) { return {}; }
};

}  // namespace quire
