#pragma once

#include <span>

#include "coordinator/core/blocks/block_fill.h"
#include "coordinator/core/blocks/host_cache.h"
#include "coordinator/core/blocks/host_swap.h"
#include "coordinator/core/blocks/migration_holdings.h"
#include "coordinator/core/blocks/prefix_pins.h"
#include "coordinator/core/blocks/sequence_states.h"

namespace quire {

/// Gives KV blocks to sequences and takes them back. Owns the block pools, pins, swapped-out block tables and the
/// blocks that are held for migrating requests. No sequence writes a shared block: the writer gets a copy first
/// (copy-on-write), and the last owner writes in place. Plans contain copies and table changes.
class BlockManager {
 public:
  explicit BlockManager(const BlockManagerOptions& options);
  BlockManager(const BlockManager&) = delete;
  BlockManager& operator=(const BlockManager&) = delete;

  /// Changes the pool sizes. No block may be held or cached, on device or host.
  void Resize(const PoolSizes& sizes);
  PoolSizes sizes() const { return {options_.num_blocks, options_.num_host_blocks, options_.state_blocks}; }

  int block_size() const { return options_.block_size; }
  int sliding_window() const { return options_.sliding_window; }
  int watermark_blocks() const { return watermark_blocks_; }
  int num_free() const { return pool_.num_free(); }
  int num_usable() const { return pool_.num_usable(); }
  int BlocksFor(int64_t tokens) const { return static_cast<int>((tokens + block_size() - 1) / block_size()); }

  /// Returns how many free blocks Grow takes for all targets, copies included. The targets belong to one request.
  int BlocksToGrow(std::span<const GrowTarget> targets) const;
  /// Grows the table to num_tokens, and makes new positions and the recurrent state writable; Extend only grows the
  /// table. Both need free blocks. Grow makes a due checkpoint if `reserved` more blocks are free.
  void Grow(Sequence& sequence, int num_tokens, StepPlan& plan, int reserved = 0);
  void Extend(Sequence& sequence, int num_tokens, StepPlan& plan);
  /// Appends up to `count` next blocks, cached or copied from the host. Returns how many. The plan must be sent.
  int BringFromHost(Sequence& sequence, int count, StepPlan& plan);
  /// Counts `count` more tokens as computed and makes full blocks findable. The sequence must have all these tokens.
  void Computed(Sequence& sequence, int count);
  /// Lets `child`, which has no blocks, share the blocks of `parent`'s computed tokens, and sets its num_computed.
  void Fork(const Sequence& parent, Sequence& child);
  /// Gives back the blocks that no later token attends to (sliding window).
  void LeaveWindow(Sequence& sequence);
  /// Gives back the blocks after the first num_tokens tokens.
  void Trim(Sequence& sequence, int num_tokens);
  /// Holds under the ticket and returns up to max_blocks leading full blocks; none with states or sliding windows.
  std::vector<BlockId> ShareFull(uint64_t ticket, const Sequence& sequence, int max_blocks);
  /// Reserves blocks for another engine's full blocks. Returns false if too few are free, or copies cannot be cached.
  bool ReserveForFull(uint64_t ticket, int num_blocks);
  /// Keeps the ticket's last blocks as the state after the sequence, if the sequence is cached. Ends the ticket.
  void CacheState(uint64_t ticket, Sequence& sequence);
  /// Caches the ticket's blocks [prefix, num_blocks) for the sequence, if all before are cached. Ends the ticket.
  void CacheArrived(uint64_t ticket, int num_blocks, Sequence& sequence, int prefix = 0);
  /// Gives back all blocks of the sequence, on device and host, the last one first, and sets num_computed to 0.
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
  const HostCache& host_cache() const { return host_cache_; }
  HostCache& host_cache() { return host_cache_; }
  bool has_states() const { return states_.num_blocks() > 0; }
  const SequenceStates& states() const { return states_; }
  SequenceStates& states() { return states_; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(pool_, host_pool_, prefixes_, fill_, host_cache_, pins_, host_holdings_, device_holdings_);
  }

 private:
  BlockId Allocate();

  BlockManagerOptions options_;
  BlockPool pool_, host_pool_;
  BlockFill fill_;
  PrefixSharing prefixes_;
  HostCache host_cache_;
  SequenceStates states_;
  PrefixPins pins_;
  HostSwap swap_;
  MigrationHoldings host_holdings_, device_holdings_;
  int watermark_blocks_;
};

}  // namespace quire
