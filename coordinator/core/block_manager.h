#pragma once

#include <span>
#include <vector>

#include "coordinator/core/block_pool.h"
#include "coordinator/core/sequence.h"

namespace quire {

/// A sequence and the number of tokens its blocks must hold.
struct GrowTarget {
  Sequence* sequence;
  int num_tokens;
};

/// What growing a block table changed: entries from first_index on are new, and `copies` must run before the next
/// forward pass.
struct TableGrowth {
  int first_index = 0;
  bool changed = false;
  std::vector<BlockCopyPair> copies;
};

/// The block-space manager: gives blocks to sequences and takes them back; the only one that touches the pool.
/// A block that several sequences share is never written: the writer gets a copy first (copy-on-write), and the last
/// owner writes in place.
class BlockManager {
 public:
  /// watermark is the share of the blocks that admission leaves free, so that running requests can grow.
  BlockManager(int num_blocks, int block_size, double watermark);

  int block_size() const { return block_size_; }
  int num_free() const { return pool_.num_free(); }
  int num_usable() const { return pool_.num_usable(); }
  int watermark_blocks() const { return watermark_blocks_; }
  int BlocksFor(int64_t num_tokens) const { return static_cast<int>((num_tokens + block_size_ - 1) / block_size_); }
  const BlockPool& pool() const { return pool_; }

  /// Blocks that growing all the targets takes, copies included. The targets are sequences of one request.
  int BlocksToGrow(std::span<const GrowTarget> targets) const;

  /// Makes the table cover num_tokens and the positions from num_computed on writable. The pool must have the blocks.
  TableGrowth Grow(Sequence& sequence, int num_tokens);

  /// `child` gets the blocks that hold `parent`'s computed tokens, shared, and its num_computed. `child` has no blocks.
  void Fork(const Sequence& parent, Sequence& child);

  /// Gives all blocks back, the last one first, and sets num_computed to 0.
  void Free(Sequence& sequence);

 private:
  /// The table entry that the next written token falls into, when other sequences hold that block too.
  bool NextWriteIsShared(const Sequence& sequence) const;

  BlockPool pool_;
  int block_size_;
  int watermark_blocks_;
};

}  // namespace quire
