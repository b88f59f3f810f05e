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

/// Lets sequences share the blocks of common prefixes. Gives ids to the contents of full blocks, in the prefix cache
/// and in Sequence::contents, and finds blocks that hold a sequence's next tokens. While caching is off, no content
/// gets an id, and no block is found. In models with recurrent states, a prefix is shared only up to a checkpoint.
class PrefixSharing {
 public:
  /// The caller must make the pool's OnEvict call Forget.
  PrefixSharing(const BlockManagerOptions& options, BlockPool& pool);

  /// Changes the number of blocks, and of blocks of one state. No block may be cached.
  void Resize(int num_blocks, int state_blocks);
  bool enabled() const { return enabled_; }
  /// Switches caching on or off. Switching it off forgets all cached content. Full blocks that running sequences
  /// compute while caching is off become findable together with the next full block after caching is on again.
  void Enable(bool enabled);
  /// The listener must outlive this object or be removed.
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
  /// Returns the tokens of full block `index`.
  std::span<const TokenId> TokensOfBlock(const Sequence& sequence, int index) const;
  /// True when the sequence's computed tokens fill its blocks, and the contents of all these blocks have ids.
  bool StandsAtNamedBlocks(const Sequence& sequence) const;
  /// Makes full blocks of computed and known tokens findable.
  void NameComputed(Sequence& sequence);
  /// Returns how many cached blocks hold the sequence's next tokens, up to max_tokens. Requires StandsAtNamedBlocks.
  int CountNext(Sequence& sequence, int max_tokens);
  /// At a block boundary, takes over cached blocks that hold the sequence's next tokens, up to max_tokens computed
  /// tokens. Never takes the sequence's last token, which must be computed to sample the next token. Returns the number
  /// of tokens gained. In models with recurrent states the sequence also takes over the state of a checkpoint, and
  /// shared_prefix is set to the number of tokens whose keys and values are cached.
  int Attach(Sequence& sequence, int max_tokens);
  /// Takes over cached blocks that hold the next tokens, up to max_tokens computed tokens, without a state. The
  /// sequence then serves only to give ids to the contents after these blocks. Returns the number of tokens gained.
  int AttachNames(Sequence& sequence, int max_tokens);
  /// Returns how many of the leading blocks that Attach would take over, at most max_blocks, are held already. Taking
  /// over a held block uses up no free block.
  int HeldBlocks(Sequence& sequence, int max_blocks);
  /// Makes a checkpoint of the state after the sequence's num_tokens computed tokens, which fill whole blocks. The
  /// caller holds `blocks`, the state's blocks. Returns 0 when it exists already or no cached block can lead to it.
  CheckpointId KeepState(const Sequence& sequence, int num_tokens, std::span<const BlockId> blocks);
  /// Returns a prompt's leading blocks that requests can take over (UsableBlocks), then those of the state after them.
  std::vector<BlockId> Find(std::string_view salt, std::span<const TokenId> tokens, int adapter = 0) const;
  /// Returns the cached leading blocks of a prompt in order, whether the blocks have checkpoints or not.
  std::vector<BlockId> FindBlocks(std::string_view salt, std::span<const TokenId> tokens, int adapter = 0) const;
  /// Returns how many of these leading blocks requests can take over: those up to the last block with a checkpoint.
  int UsableBlocks(std::span<const BlockId> blocks) const;

  /// Drops the cached content of a block that is about to be reused.
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
  void ExtendHashes(Sequence& sequence, int num_blocks);

  void FindNext(Sequence& sequence, int max_tokens);
  int TakeHits(Sequence& sequence, size_t count);
  size_t DeepestState() const;

  bool enabled_, has_states_;
  int block_size_;
  BlockPool& pool_;
  PrefixCache cache_;
  StateCheckpoints checkpoints_;
  std::vector<PrefixCache::Hit> hits_;  // blocks that FindNext found
  std::vector<CacheListener*> listeners_;
};

}  // namespace quire
