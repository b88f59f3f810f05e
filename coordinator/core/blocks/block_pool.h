#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Owns the KV block ids, their reference counts, and the order in which free blocks are reused. A free block has no
/// holder and is empty or cached. A cached block keeps its content until it is reused. Empty blocks are reused first,
/// then cached blocks, the least recently released first. Every operation on one block is O(1). Block 0 is the null
/// block and is never allocated.
class BlockPool {
 public:
  /// Called before a cached block is reused for other content.
  using OnEvict = std::function<void(BlockId)>;
  /// Called when a block with content to cache (KeepContent) has lost its last holder.
  using OnCached = std::function<void(BlockId)>;

  /// num_blocks counts the null block, so num_blocks - 1 blocks can be allocated.
  explicit BlockPool(
      int num_blocks, OnEvict on_evict = [](BlockId) {}, OnCached on_cached = [](BlockId) {});

  /// Changes the number of blocks; all blocks become empty. No block may be held.
  void Resize(int num_blocks);

  int num_usable() const { return static_cast<int>(blocks_.size()) - 1; }
  /// Returns the number of free blocks, empty or cached.
  int num_free() const { return static_cast<int>(empty_.size()) + num_cached_; }
  int num_held() const { return num_usable() - num_free(); }
  /// Returns the number of cached blocks: free blocks that still have their content.
  int num_cached() const { return num_cached_; }
  int ref_count(BlockId block) const { return blocks_[static_cast<size_t>(block)].ref_count; }

  /// True when the block stays cached after its last release.
  bool keeps(BlockId block) const { return blocks_[static_cast<size_t>(block)].keep; }

  /// Allocates a block with one reference. Requires num_free() > 0.
  BlockId Allocate();
  /// Adds a reference; a cached block becomes held again.
  void AddReference(BlockId block);
  /// Drops one reference. When no reference is left, the block becomes cached if KeepContent marked it, else empty.
  void Release(BlockId block);
  /// Releases the blocks of a table, the last one first, so that a block is reused after the blocks that continue its
  /// content. Skips null entries.
  void ReleaseAll(std::span<const BlockId> blocks);

  /// Marks the block's content as worth caching: after its last release the block becomes cached, not empty. The block
  /// must be held.
  void KeepContent(BlockId block);
  /// Removes the mark of KeepContent; a cached block becomes empty.
  void DropContent(BlockId block);

  /// Aborts unless every block is exactly one of held, cached and empty, and the lists agree with the counts.
  void CheckIntegrity() const;

  /// Saves or loads the pool for a snapshot; see coordinator/journal/archive.h.
  template <class Archive>
  void Transfer(Archive& archive) {
    archive(blocks_, empty_, num_cached_);
  }

 private:
  struct Block {
    int ref_count = 0;
    bool keep = false;
    BlockId previous = kNullBlock, next = kNullBlock;  // neighbours in the ring of cached blocks through block 0
  };

  Block& At(BlockId block) { return blocks_[static_cast<size_t>(block)]; }
  void Unlink(BlockId block);

  OnEvict on_evict_;
  OnCached on_cached_;
  std::vector<Block> blocks_;   // by block id; entry 0 anchors the ring: its `next` was released least recently
  std::vector<BlockId> empty_;  // a stack: blocks are taken from the back
  int num_cached_ = 0;
};

}  // namespace quire
