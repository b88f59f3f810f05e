#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "coordinator/core/block_options.h"
#include "coordinator/core/block_pool.h"
#include "coordinator/core/prefix_cache.h"
#include "coordinator/core/sequence.h"
#include "coordinator/core/state_checkpoints.h"

namespace quire {

/// Sequences share the blocks of common prefixes: names what their full blocks hold, in the prefix cache and in their
/// `contents`, and finds blocks that hold what they need next. While caching is off, nothing is named and nothing
/// found. Where sequences have states, a prefix can be shared up to a state that is kept and no further.
class PrefixSharing {
 public:
  /// The pool must tell of evictions (Forget).
  PrefixSharing(const BlockManagerOptions& options, BlockPool& pool);

  /// For another number of blocks. Nothing may be cached.
  void Resize(int num_blocks, int state_blocks);
  bool enabled() const { return enabled_; }
  /// Switches caching on or off. Off forgets all cached content; after on, full blocks of running sequences that were
  /// computed meanwhile get their names with the next ones.
  void Enable(bool enabled);
  const PrefixCache& cache() const { return cache_; }
  const StateCheckpoints& checkpoints() const { return checkpoints_; }
  StateCheckpoints& checkpoints() { return checkpoints_; }

  /// Where the contents of requests of this salt begin.
  BlockHash Root(std::string_view salt) const { return cache_.Root(salt); }
  /// The hash of block `index` of the sequence's known tokens, or null when that block is not full or nothing is
  /// cached.
  const BlockHash* HashOfBlock(Sequence& sequence, int index);
  /// Full blocks of computed and known tokens become findable.
  void NameComputed(Sequence& sequence);
  /// At a block boundary: takes over cached blocks that hold the next tokens, up to max_tokens computed ones and never
  /// the last known token, which must be computed to draw the next. Returns the tokens gained. The sequence's state is
  /// then a kept one; how far keys and values alone are cached is noted in shared_prefix.
  int Attach(Sequence& sequence, int max_tokens);
  /// Of the leading blocks that attaching max_blocks at most would take over, those in somebody's use: they take no
  /// free one.
  int HeldBlocks(Sequence& sequence, int max_blocks);
  /// The state after the sequence's num_tokens computed tokens, all of full blocks, is in `blocks`, which somebody
  /// holds: keeps it. 0 when there is one already, or nothing that it could be found by.
  CheckpointId KeepState(const Sequence& sequence, int num_tokens, std::span<const BlockId> blocks);
  /// Cached leading blocks of a prompt, in order, then those of the state behind them.
  std::vector<BlockId> Find(std::string_view salt, std::span<const TokenId> tokens) const;

  /// The block's content is about to be overwritten.
  void Forget(BlockId block);
  /// Forgets all cached content; blocks in use stay in use.
  void Flush();

  /// Aborts unless the hashes noted for the sequence are those of its tokens.
  void CheckHashes(const Sequence& sequence) const;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(cache_, checkpoints_);
  }

 private:
  std::span<const TokenId> TokensOfBlock(const Sequence& sequence, int index) const;
  void ExtendHashes(Sequence& sequence, int num_blocks);

  void FindNext(Sequence& sequence, int max_tokens);
  size_t DeepestState() const;

  bool enabled_, has_states_;
  int block_size_;
  BlockPool& pool_;
  PrefixCache cache_;
  StateCheckpoints checkpoints_;
  std::vector<PrefixCache::Hit> hits_;  // of FindNext
};

}  // namespace quire
