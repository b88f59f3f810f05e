#include "coordinator/core/block_manager.h"

#include <algorithm>
#include <map>

#include "comm/error.h"

namespace quire {

BlockManager::BlockManager(int num_blocks, int block_size, double watermark)
    : pool_(num_blocks), block_size_(block_size), watermark_blocks_(static_cast<int>(watermark * pool_.num_usable())) {}

bool BlockManager::NextWriteIsShared(const Sequence& sequence) const {
  const auto index = static_cast<size_t>(sequence.num_computed / block_size_);
  return index < sequence.blocks.size() && pool_.ref_count(sequence.blocks[index]) > 1;
}

int BlockManager::BlocksToGrow(std::span<const GrowTarget> targets) const {
  int needed = 0;
  std::map<BlockId, int> writers;  // of blocks that are shared
  for (const auto& [sequence, num_tokens] : targets) {
    needed += std::max(0, BlocksFor(num_tokens) - static_cast<int>(sequence->blocks.size()));
    if (num_tokens > sequence->num_computed && NextWriteIsShared(*sequence)) {
      ++writers[sequence->blocks[static_cast<size_t>(sequence->num_computed / block_size_)]];
    }
  }
  for (const auto& [block, count] : writers) {
    needed += std::min(count, pool_.ref_count(block) - 1);  // when all owners write, the last one does so in place
  }
  return needed;
}

TableGrowth BlockManager::Grow(Sequence& sequence, int num_tokens) {
  TableGrowth growth;
  growth.first_index = static_cast<int>(sequence.blocks.size());
  if (num_tokens > sequence.num_computed && NextWriteIsShared(sequence)) {
    growth.first_index = sequence.num_computed / block_size_;
    BlockId& entry = sequence.blocks[static_cast<size_t>(growth.first_index)];
    const BlockId copy = pool_.Allocate();
    growth.copies.push_back({entry, copy});
    pool_.Release(entry);
    entry = copy;
    growth.changed = true;
  }
  while (static_cast<int>(sequence.blocks.size()) < BlocksFor(num_tokens)) {
    sequence.blocks.push_back(pool_.Allocate());
    growth.changed = true;
  }
  return growth;
}

void BlockManager::Fork(const Sequence& parent, Sequence& child) {
  QUIRE_CHECK(child.blocks.empty(), "sequence {} holds {} blocks", child.id, child.blocks.size());
  child.num_computed = parent.num_computed;
  for (int i = 0; i < BlocksFor(parent.num_computed); ++i) {
    child.blocks.push_back(parent.blocks[static_cast<size_t>(i)]);
    pool_.AddReference(child.blocks.back());
  }
}

void BlockManager::Free(Sequence& sequence) {
  for (auto it = sequence.blocks.rbegin(); it != sequence.blocks.rend(); ++it) pool_.Release(*it);
  sequence.blocks.clear();
  sequence.num_computed = 0;
}

}  // namespace quire
