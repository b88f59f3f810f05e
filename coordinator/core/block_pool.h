#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// The ids of the KV blocks, how many holders each has, and in which order blocks that nobody holds are given away.
/// A block nobody holds is either empty or cached: a cached one keeps its content until it is needed for something
/// else. Empty ones go first, then cached ones, the one released longest ago first. Every operation is O(1).
/// Block 0 is the null block and is never handed out.
class BlockPool {
 public:
  /// Told of a cached block that is given away: its content is about to be overwritten.
  using OnEvict = std::function<void(BlockId)>;

  /// num_blocks counts the null block, so num_blocks - 1 can be held.
  explicit BlockPool(
      int num_blocks, OnEvict on_evict = [](BlockId) {});

  /// Another number of blocks, all of them empty. None may be held.
  void Resize(int num_blocks);

  int num_usable() const { return static_cast<int>(blocks_.size()) - 1; }
  /// Blocks that nobody holds, the cached ones counted in.
  int num_free() const { return static_cast<int>(empty_.size()) + num_cached_; }
  int num_held() const { return num_usable() - num_free(); }
  /// Blocks that nobody holds and whose content is kept.
  int num_cached() const { return num_cached_; }
  int ref_count(BlockId block) const { return blocks_[static_cast<size_t>(block)].ref_count; }

  /// True when its content outlives its last holder.
  bool keeps(BlockId block) const { return blocks_[static_cast<size_t>(block)].keep; }

  /// A block with one reference. num_free() must be above 0.
  BlockId Allocate();
  /// Also takes a cached block back into use.
  void AddReference(BlockId block);
  /// Drops one reference. Without holders the block is cached if its content is kept, else empty.
  void Release(BlockId block);
  /// Releases the blocks of a list, the last one first: a block is never given away before those that continue it. Null
  /// entries are passed over.
  void ReleaseAll(std::span<const BlockId> blocks);

  /// The block's content is worth keeping after its last release. The block must be held.
  void KeepContent(BlockId block);
  /// The opposite; a cached block becomes empty.
  void DropContent(BlockId block);

  /// Aborts unless every block is exactly one of held, cached and empty, and the lists agree with the counts.
  void CheckIntegrity() const;

  /// See coordinator/journal/archive.h.
  template <class Archive>
  void Transfer(Archive& archive) {
    archive(blocks_, empty_, num_cached_);
  }

 private:
  struct Block {
    int ref_count = 0;
    bool keep = false;
    BlockId previous = kNullBlock, next = kNullBlock;  // among the cached, a ring through block 0
  };

  Block& At(BlockId block) { return blocks_[static_cast<size_t>(block)]; }
  void Unlink(BlockId block);

  OnEvict on_evict_;
  std::vector<Block> blocks_;   // by id; entry 0 is the ring's anchor: its next was released longest ago
  std::vector<BlockId> empty_;  // handed out from the back
  int num_cached_ = 0;
};

}  // namespace quire
