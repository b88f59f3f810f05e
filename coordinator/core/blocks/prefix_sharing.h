#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "coordinator/core/blocks/block_options.h"
#include "coordinator/core/blocks/block_pool.h"
#include "coordinator/core/blocks/cache_listener.h"
#include "coordinator/core/blocks/prefix_cache.h"
#include "coordinator/core/blocks/sequence.h"
#include "coordinator/core/blocks/state_checkpoints.h"

namespace quire {

/// Lets sequences share the blocks of common prefixes. Gives the contents of full blocks ids, in the prefix cache and
/// in Sequence::contents, and finds blocks that hold a sequence's next tokens. While caching is off, no content gets an
/// id, and no block is found. With recurrent states a prefix can be shared only up to a kept state.
class PrefixSharing {
 public:
  /// The pool's OnEvict must call Forget.
  PrefixSharing(const BlockManagerOptions& options, BlockPool& pool);

  /// Changes the number of blocks. No block may be cached.
  void Resize(int num_blocks, int state_blocks);
  bool enabled() const { return enabled_; }
  /// Switches caching on or off. Off forgets all cached content. After caching is on again, full blocks that running
  /// sequences computed meanwhile become findable together with the next full block.
  void Enable(bool enabled);
  /// A listener must outlive this object or be removed.
  void AddListener(CacheListener* listener) { listeners_.push_back(listener); }
  void RemoveListener(CacheListener* listener) { std::erase(listeners_, listener); }
  const PrefixCache& cache() const { return cache_; }
  const StateCheckpoints& checkpoints() const { return checkpoints_; }
  StateCheckpoints& checkpoints() { return checkpoints_; }

  /// Returns the start of the hash chain for requests with this salt and adapter (0: none).
  BlockHash Root(std::string_view salt, int adapter = 0) const { return cache_.Root(salt, adapter); }
  /// Returns the hash of block `index` of the sequence's known tokens; null when the block is not full or caching is
  /// off.
  const BlockHash* HashOfBlock(Sequence& sequence, int index);
  /// Makes full blocks of computed and known tokens findable.
  void NameComputed(Sequence& sequence);
  /// At a block boundary: takes over cached blocks that hold the sequence's next tokens, up to max_tokens computed
  /// tokens. Never takes the last known token, which must be computed to draw the next one. Returns the tokens gained.
  /// With states the sequence also takes over a kept state, and shared_prefix notes how far keys and values alone are
  /// cached.
  int Attach(Sequence& sequence, int max_tokens);
  /// Takes over cached blocks that hold the next tokens, up to max_tokens computed tokens, without a state, and so only
  /// to name what comes after them. Returns the tokens gained.
  int AttachNames(Sequence& sequence, int max_tokens);
  /// Counts the leading blocks that Attach would take over, at most max_blocks, and that are held already. Taking over
  /// a held block uses up no free block.
  int HeldBlocks(Sequence& sequence, int max_blocks);
  /// Keeps the state after the sequence's num_tokens computed tokens, all in full blocks; the caller holds `blocks`.
  /// Returns 0 when a state is kept there already or no cached block can lead to it.
  CheckpointId KeepState(const Sequence& sequence, int num_tokens, std::span<const BlockId> blocks);
  /// Returns the cached leading blocks of a prompt in order, then the blocks of the state after them.
  std::vector<BlockId> Find(std::string_view salt, std::span<const TokenId> tokens, int adapter = 0) const;
  /// The cached leading blocks of a prompt in order, whether states are kept or not.
  std::vector<BlockId> FindBlocks(std::string_view salt, std::span<const TokenId> tokens, int adapter = 0) const;
  /// How many of these leading blocks requests can take over: up to the last one with a kept state.
  int UsableBlocks(std::span<const BlockId> blocks) const;

  /// Drops the content of a block that is being reused from the cache.
  void Forget(BlockId block);
  /// Forgets all cached content; held blocks stay held.
  void Flush();

  /// Aborts unless the hashes noted for the sequence match its tokens.
  void CheckHashes(const Sequence& sequence) const;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(cache_, checkpoints_);
  }

 private:
  std::span<const TokenId> TokensOfBlock(const Sequence& sequence, int index) const;
  void ExtendHashes(Sequence& sequence, int num_blocks);

  void FindNext(Sequence& sequence, int max_tokens);
  bool StandsAtNamedBlocks(const Sequence& sequence) const;
  int TakeHits(Sequence& sequence, size_t count);
  size_t DeepestState() const;

  bool enabled_, has_states_;
  int block_size_;
  BlockPool& pool_;
  PrefixCache cache_;
  StateCheckpoints checkpoints_;
  std::vector<PrefixCache::Hit> hits_;  // result of FindNext
  std::vector<CacheListener*> listeners_;
};

}  // namespace quire
