#include "coordinator/core/block_pool.h"

#include "comm/error.h"

namespace quire {

BlockPool::BlockPool(int num_blocks) : ref_counts_(static_cast<size_t>(num_blocks), 0) {
  QUIRE_CHECK(num_blocks >= 2, "{} blocks", num_blocks);
  for (BlockId id = num_blocks - 1; id > kNullBlock; --id) free_.push_back(id);
}

BlockId BlockPool::Allocate() {
  QUIRE_CHECK(!free_.empty(), "no free block");
  const BlockId block = free_.back();
  free_.pop_back();
  ref_counts_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::AddReference(BlockId block) {
  QUIRE_CHECK(ref_count(block) > 0, "block {} is free", block);
  ++ref_counts_[static_cast<size_t>(block)];
}

void BlockPool::Release(BlockId block) {
  QUIRE_CHECK(block > kNullBlock && block <= num_usable() && ref_count(block) > 0, "block {} is not held", block);
  if (--ref_counts_[static_cast<size_t>(block)] == 0) free_.push_back(block);
}

void BlockPool::CheckIntegrity() const {
  std::vector<bool> is_free(ref_counts_.size(), false);
  for (const BlockId block : free_) {
    QUIRE_CHECK(block > kNullBlock && block <= num_usable(), "block {} in the free list", block);
    QUIRE_CHECK(!is_free[static_cast<size_t>(block)], "block {} is free twice", block);
    is_free[static_cast<size_t>(block)] = true;
  }
  for (BlockId block = 1; block <= num_usable(); ++block) {
    QUIRE_CHECK(is_free[static_cast<size_t>(block)] == (ref_count(block) == 0), "block {} has {} references", block,
                ref_count(block));
  }
}

}  // namespace quire
