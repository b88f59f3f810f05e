#pragma once

#include <span>

#include "coordinator/core/block_fill.h"
#include "coordinator/core/block_options.h"
#include "coordinator/core/block_pool.h"
#include "coordinator/core/host_swap.h"
#include "coordinator/core/migration_holdings.h"
#include "coordinator/core/prefix_pins.h"
#include "coordinator/core/prefix_sharing.h"
#include "coordinator/core/sequence.h"
#include "coordinator/core/sequence_states.h"

namespace quire {

/// The block-space manager: gives blocks to sequences and takes them back. Owns the pools and whoever else holds
/// blocks: pins, swapped-out tables, holdings of requests between engines. A shared block is never written: the writer
/// gets a copy first (copy-on-write), the last owner writes in place. What has to be copied or told goes into the plan.
class BlockManager {
 public:
  explicit BlockManager(const BlockManagerOptions& options);
  BlockManager(const BlockManager&) = delete;
  BlockManager& operator=(const BlockManager&) = delete;

  /// Other numbers of blocks from now on. Nothing may be held or cached, on device or host.
  void Resize(const PoolSizes& sizes);
  PoolSizes sizes() const { return {options_.num_blocks, options_.num_host_blocks, options_.state_blocks}; }

  int block_size() const { return options_.block_size; }
  int sliding_window() const { return options_.sliding_window; }
  int watermark_blocks() const { return watermark_blocks_; }
  int num_free() const { return pool_.num_free(); }
  int num_usable() const { return pool_.num_usable(); }
  int BlocksFor(int64_t num_tokens) const {
    return static_cast<int>((num_tokens + options_.block_size - 1) / options_.block_size);
  }

  /// Blocks that growing all the targets takes, copies included. The targets are sequences of one request.
  int BlocksToGrow(std::span<const GrowTarget> targets) const;
  /// Makes the table cover num_tokens, and the positions from num_planned() on and the state writable, and tells the
  /// workers if they know the sequence. The pool must have the blocks; where it has `reserved` more, a state may be
  /// kept.
  void Grow(Sequence& sequence, int num_tokens, StepPlan& plan, int reserved = 0);
  /// `count` more tokens were computed and all up to there are known: full blocks become findable.
  void Computed(Sequence& sequence, int count);
  /// `child` gets the blocks that hold `parent`'s computed tokens, shared, and its num_computed. `child` has no blocks.
  void Fork(const Sequence& parent, Sequence& child);
  /// Gives back the blocks that no query sees which is not in a step's result yet.
  void LeaveWindow(Sequence& sequence);
  /// Gives back the blocks after the computed tokens.
  void Trim(Sequence& sequence);
  /// Holds a sequence's leading full blocks, which nobody writes any more, under the ticket; none with states or
  /// windows.
  std::vector<BlockId> ShareFull(uint64_t ticket, const Sequence& sequence, int max_blocks);
  /// Room for such blocks of another engine. False when the pool has not so many to spare, or could not cache them.
  bool ReserveForFull(uint64_t ticket, int num_blocks);
  /// What such blocks of a sequence held elsewhere is in the first ones of the ticket, which ends: they are cached now.
  void CacheArrived(uint64_t ticket, int num_blocks, Sequence& sequence);
  /// Gives all blocks back, on device and host, the last one first, and sets num_computed to 0.
  void Free(Sequence& sequence);

  const BlockPool& pool() const { return pool_; }
  const BlockPool& host_pool() const { return host_pool_; }
  const BlockFill& fill() const { return fill_; }
  BlockFill& fill() { return fill_; }
  const PrefixSharing& prefixes() const { return prefixes_; }
  PrefixSharing& prefixes() { return prefixes_; }
  const PrefixPins& pins() const { return pins_; }
  PrefixPins& pins() { return pins_; }
  const MigrationHoldings& host_holdings() const { return host_holdings_; }
  MigrationHoldings& host_holdings() { return host_holdings_; }
  const MigrationHoldings& device_holdings() const { return device_holdings_; }
  MigrationHoldings& device_holdings() { return device_holdings_; }
  HostSwap& swap() { return swap_; }
  bool has_states() const { return states_.num_blocks() > 0; }
  const SequenceStates& states() const { return states_; }
  SequenceStates& states() { return states_; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(pool_, host_pool_, prefixes_, fill_, pins_, host_holdings_, device_holdings_);
  }

 private:
  bool NextWriteIsShared(const Sequence& sequence) const;
  BlockId Allocate();

  BlockManagerOptions options_;
  BlockPool pool_, host_pool_;
  BlockFill fill_;
  PrefixSharing prefixes_;
  SequenceStates states_;
  PrefixPins pins_;
  HostSwap swap_;
  MigrationHoldings host_holdings_, device_holdings_;
  int watermark_blocks_;
};

}  // namespace quire
