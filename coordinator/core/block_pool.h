#pragma once

#include <cstddef>
#include <vector>

#include "comm/types.h"

namespace quire {

/// The ids of the KV blocks: which are free, and how many sequences hold each of the others. Knows nothing else.
/// Block 0 is the null block and is never handed out.
class BlockPool {
 public:
  /// num_blocks counts the null block, so num_blocks - 1 can be held.
  explicit BlockPool(int num_blocks);

  int num_usable() const { return static_cast<int>(ref_counts_.size()) - 1; }
  int num_free() const { return static_cast<int>(free_.size()); }
  int num_held() const { return num_usable() - num_free(); }
  int ref_count(BlockId block) const { return ref_counts_[static_cast<size_t>(block)]; }

  /// A block with one reference. The pool must not be empty.
  BlockId Allocate();
  void AddReference(BlockId block);
  /// Drops one reference; the last one makes the block free. The block freed last is handed out first.
  void Release(BlockId block);

  /// Aborts unless free + held == total, no id is free twice, and exactly the free ids have no reference.
  void CheckIntegrity() const;

 private:
  std::vector<int> ref_counts_;  // by block id
  std::vector<BlockId> free_;    // handed out from the back
};

}  // namespace quire
