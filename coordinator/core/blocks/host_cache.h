#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/core/blocks/block_options.h"
#include "coordinator/core/blocks/block_pool.h"
#include "coordinator/core/blocks/cache_listener.h"
#include "coordinator/core/blocks/prefix_sharing.h"

namespace quire {

/// Copies of cached device blocks in free blocks of the host pool. Such a host block stays free: whoever allocates host
/// blocks gets it, and the copy is forgotten. A copy is found by its hash, which identifies the block's tokens and all
/// tokens before them, and its tokens are compared besides.
///
/// Blocks are copied while they are still cached on the device, in the order in which the device pool will reuse them,
/// a few with each step. So a device block that is reused has a copy, unless it was reused before its turn. A state
/// that is kept behind a block is copied with the block.
///
/// Off in models whose layers all have a sliding window, because their sequences give up leading blocks.
class HostCache : public CacheListener {
 public:
  HostCache(const BlockManagerOptions& options, BlockPool& device, BlockPool& host, PrefixSharing& prefixes);

  /// Changes the numbers of blocks of both pools. No copy may exist.
  void Resize(const PoolSizes& sizes);

  /// Called when a cached device block has lost its last holder.
  void OnReleased(BlockId block);
  /// Called before a cached device block is reused.
  void OnReused(BlockId block);
  /// Forgets the copy in a host block, or the state that the host block is part of. Called before the host block is
  /// reused.
  void Forget(BlockId host);
  void OnFindable(const Sequence& /*sequence*/, int /*index*/) override {}
  void OnCleared() override;

  /// Copies up to `most` device blocks with this plan, if the plan moves no other blocks between device and host.
  void CopyAhead(int most, StepPlan& plan);

  /// Returns the copy of a block with this hash and these tokens, if there is one.
  std::optional<BlockId> Find(const BlockHash& hash, std::span<const TokenId> tokens) const;
  /// Returns the copy of block `index` of the sequence's known tokens, if there is one.
  std::optional<BlockId> CopyOf(Sequence& sequence, int index) const;
  /// Returns the host blocks of the state after the block with this copy; empty: there is none.
  std::span<const BlockId> StateAfter(BlockId copy) const { return states_.Find(copy); }
  /// Returns how many of the sequence's next blocks need not be computed, up to max_tokens computed tokens: those that
  /// are cached on the device, then those that have copies. In models with states they end where a state has a copy.
  /// The last known token is never among them, because it must be computed.
  int Count(Sequence& sequence, int max_tokens) const;
  /// Holds host blocks, of a prompt's leading blocks in their order, until EndPlan, because the plan that is being made
  /// reads them.
  void Bring(std::span<const BlockId> hosts);
  /// Releases what the plan reads and writes. It is reused last. Called when the plan is complete.
  void EndPlan();

  const PrefixCache& copies() const { return cache_; }
  const StateCheckpoints& states() const { return states_; }
  int num_copies() const { return cache_.size(); }
  int64_t num_copied() const { return num_copied_; }
  int64_t num_found() const { return num_found_; }

  /// Aborts unless exactly the host blocks with copies are marked as cached, and the counts are right.
  void CheckIntegrity() const;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(cache_, states_, waiting_, ahead_, num_ahead_, num_copied_, num_found_);
  }

 private:
  void HoldForPlan(BlockId host);
  int CopyNext(StepPlan& plan);
  int CopyTo(std::span<const BlockId> blocks, std::span<const BlockId> hosts, StepPlan& plan);
  void SetAhead(BlockId block, bool ahead);

  const bool may_be_on_;
  const int block_size_;
  bool on_ = false, has_states_ = false;
  BlockPool &device_, &host_;
  PrefixSharing& prefixes_;
  PrefixCache cache_;            // by host block
  StateCheckpoints states_;      // in the host pool; each belongs to a copy
  std::deque<BlockId> waiting_;  // device blocks to copy, in the order of their release; some are no longer cached
  std::vector<uint8_t> ahead_;   // by device block: 1: the block has been copied and is still cached on the device
  int num_ahead_ = 0;            // number of ones in ahead_
  std::vector<BlockId> held_;    // host blocks that the plan being made reads
  int64_t num_copied_ = 0, num_found_ = 0;  // blocks copied to the host, and copies that came back
};

}  // namespace quire
