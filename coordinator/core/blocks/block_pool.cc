#include "coordinator/core/blocks/block_pool.h"

#include <utility>

#include "comm/base/error.h"

namespace quire {

BlockPool::BlockPool(int num_blocks, OnEvict on_evict, OnCached on_cached)
    : on_evict_(std::move(on_evict)), on_cached_(std::move(on_cached)) {
  Resize(num_blocks);
}

void BlockPool::Resize(int num_blocks) {
  QUIRE_CHECK(num_blocks >= 1, "{} blocks", num_blocks);
  QUIRE_CHECK(blocks_.empty() || num_held() == 0, "{} blocks are held", num_held());
  blocks_.assign(static_cast<size_t>(num_blocks), {});
  num_cached_ = 0;
  empty_.clear();
  empty_.reserve(blocks_.size());
  for (BlockId id = num_blocks - 1; id > kNullBlock; --id) empty_.push_back(id);
}

void BlockPool::Unlink(BlockId block) {
  Block& b = At(block);
  At(b.previous).next = b.next;
  At(b.next).previous = b.previous;
  --num_cached_;
}

BlockId BlockPool::Allocate() {
  BlockId block = kNullBlock;
  if (!empty_.empty()) {
    block = empty_.back();
    empty_.pop_back();
  } else {
    block = At(kNullBlock).next;
    QUIRE_CHECK(block != kNullBlock, "no free block");
    Unlink(block);
    At(block).keep = false;
    on_evict_(block);
  }
  At(block).ref_count = 1;
  return block;
}

void BlockPool::AddReference(BlockId block) {
  Block& b = At(block);
  QUIRE_CHECK(b.ref_count > 0 || b.keep, "block {} is empty", block);
  if (b.ref_count == 0) Unlink(block);
  ++b.ref_count;
}

void BlockPool::Release(BlockId block) {
  QUIRE_CHECK(block > kNullBlock && block <= num_usable() && ref_count(block) > 0, "block {} is not held", block);
  Block& b = At(block);
  if (--b.ref_count > 0) return;
  if (!b.keep) {
    empty_.push_back(block);
    return;
  }
  b.previous = At(kNullBlock).previous;
  b.next = kNullBlock;
  At(b.previous).next = block;
  At(kNullBlock).previous = block;
  ++num_cached_;
  on_cached_(block);
}

void BlockPool::ReleaseAll(std::span<const BlockId> blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (*block != kNullBlock) Release(*block);
  }
}

void BlockPool::KeepContent(BlockId block) {
  QUIRE_CHECK(ref_count(block) > 0, "block {} is not held", block);
  At(block).keep = true;
}

void BlockPool::DropContent(BlockId block) {
  Block& b = At(block);
  if (!b.keep) return;
  b.keep = false;
  if (b.ref_count > 0) return;
  Unlink(block);
  empty_.push_back(block);
}

void BlockPool::CheckIntegrity() const {
  std::vector<bool> listed(blocks_.size(), false);
  const auto list = [&](BlockId block, bool keep) {
    QUIRE_CHECK(block > kNullBlock && block <= num_usable(), "block {} in a list of free blocks", block);
    const Block& b = blocks_[static_cast<size_t>(block)];
    QUIRE_CHECK(!listed[static_cast<size_t>(block)], "block {} is free twice", block);
    QUIRE_CHECK(b.ref_count == 0 && b.keep == keep, "block {}: {} references, in the wrong list", block, b.ref_count);
    listed[static_cast<size_t>(block)] = true;
  };
  for (const BlockId block : empty_) list(block, false);
  int cached = 0;
  for (BlockId block = blocks_[0].next; block != kNullBlock; block = blocks_[static_cast<size_t>(block)].next) {
    list(block, true);
    ++cached;
  }
  QUIRE_CHECK(cached == num_cached_, "{} blocks cached, {} counted", cached, num_cached_);
  for (BlockId block = 1; block <= num_usable(); ++block) {
    QUIRE_CHECK(listed[static_cast<size_t>(block)] == (ref_count(block) == 0), "block {} has {} references", block,
                ref_count(block));
  }
}

}  // namespace quire
