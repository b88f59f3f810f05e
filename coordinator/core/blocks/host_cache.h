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

/// Copies of cached device blocks in free blocks of the host pool. Such a host block stays free: a later allocation may
/// take the block, and the copy is then forgotten. A copy is found by its hash and its tokens. A few blocks are copied
/// with each step: first those that this step reuses, before anything is overwritten, then those that are still cached
/// on the device, in the order in which the device pool will reuse them. The checkpoint of a block is copied with the
/// block, while both are cached. There are no copies for models whose layers all have a sliding window.
class HostCache : public CacheListener {
 public:
  HostCache(const BlockManagerOptions& options, BlockPool& device, BlockPool& host, PrefixSharing& prefixes);

  /// Changes the pools' sizes. No copy may exist.
  void Resize(const PoolSizes& sizes);

  /// Called when a cached device block has lost its last holder.
  void OnReleased(BlockId block);
  /// Called before a cached device block is reused, while the prefix cache still has it.
  void OnReused(BlockId block);
  /// Called before a plan is made. Forgets blocks that earlier plans reused: this plan may run too late for them.
  void BeginPlan() { leaving_.clear(); }
  /// Forgets what is in a host block, which is about to be reused.
  void Forget(BlockId host);
  void OnFindable(const Sequence& /*sequence*/, int /*index*/) override {}
  void OnCleared() override;

  /// Copies up to `most` device blocks with this plan. Copies none if the plan moves blocks of swapped requests.
  void CopyAhead(int most, StepPlan& plan);

  /// Returns the copy of a block with this hash and these tokens, if there is one.
  std::optional<BlockId> Find(const BlockHash& hash, std::span<const TokenId> tokens) const;
  /// Returns the copy of block `index` of the sequence's known tokens, if there is one.
  std::optional<BlockId> CopyOf(Sequence& sequence, int index) const;
  /// Returns the host blocks of the state after the block with this copy; empty: there is none.
  std::span<const BlockId> StateAfter(BlockId copy) const { return states_.Find(copy); }
  /// Returns how many of the sequence's next blocks, up to max_tokens, are cached on the device or have host copies.
  /// The last counted block has a copy (and its state, in models with states) and is before the last known token.
  int Count(Sequence& sequence, int max_tokens) const;
  /// Holds the host blocks of a prompt, which the plan being made reads, until EndPlan.
  void Bring(std::span<const BlockId> hosts);
  /// Releases the host blocks that the plan reads and writes, to be reused last. Called when the plan is complete.
  void EndPlan();

  const PrefixCache& copies() const { return cache_; }
  int num_copies() const { return cache_.size(); }
  int64_t num_copied() const { return num_copied_; }
  int64_t num_found() const { return num_found_; }

  /// Aborts unless the host pool caches exactly the blocks that hold a copy of a block or of a state, and num_ahead_
  /// counts the entries 1 of ahead_.
  void CheckIntegrity() const;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(cache_, states_, waiting_, ahead_, num_ahead_, num_copied_, num_found_);
  }

 private:
  /// A cached block that the plan being made reuses.
  struct Leaving {
    BlockId block;
    BlockHash hash;
    std::vector<TokenId> tokens;
  };
  void HoldForPlan(BlockId host);
  std::optional<BlockId> NewCopy(BlockId block, const BlockHash& hash, std::span<const TokenId> tokens, StepPlan& plan);
  int CopyNext(StepPlan& plan);
  int CopyTo(std::span<const BlockId> blocks, std::span<const BlockId> hosts, StepPlan& plan);
  void SetAhead(BlockId block, bool ahead);

  const bool may_be_on_;
  const int block_size_;
  bool on_ = false, has_states_ = false;
  BlockPool &device_, &host_;
  PrefixSharing& prefixes_;
  PrefixCache cache_;            // by host block
  StateCheckpoints states_;      // copied states; each belongs to the host copy of a block
  std::deque<BlockId> waiting_;  // device blocks to copy, in the order of their release; some are no longer cached
  std::vector<uint8_t> ahead_;   // by device block: 1: the block has been copied and is still cached on the device
  int num_ahead_ = 0;            // number of entries 1 in ahead_
  std::vector<BlockId> held_;    // host blocks that the plan being made reads or writes
  size_t num_brought_ = 0;       // number of copies that the plan being made brings back
  std::vector<Leaving> leaving_;
  int64_t num_copied_ = 0, num_found_ = 0;  // blocks copied to the host, and copies that came back
};

}  // namespace quire
