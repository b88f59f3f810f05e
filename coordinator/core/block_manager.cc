#include "coordinator/core/block_manager.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

BlockManager::BlockManager(const BlockManagerOptions& options)
    : options_(options),
      pool_(options.num_blocks),
      host_pool_(options.num_host_blocks + 1),
      cache_(options.prefix_caching ? options.num_blocks : 1, options.prefix_caching ? options.block_size : 1,
             options.hash_key, options.hash_bits),
      uses_(static_cast<size_t>(options.num_blocks)),
      watermark_blocks_(static_cast<int>(options.watermark * pool_.num_usable())) {
  ForgetWhatIsEvicted();
}

void BlockManager::ForgetWhatIsEvicted() {
  pool_.on_evict = [this](BlockId block) { cache_.Erase(block); };
}

void BlockManager::Resize(const PoolSizes& sizes) {
  QUIRE_CHECK(pool_.num_held() == 0 && host_pool_.num_held() == 0 && cache_.size() == 0,
              "{} blocks are held, {} on the host, {} are cached", pool_.num_held(), host_pool_.num_held(),
              cache_.size());
  options_.num_blocks = sizes.num_blocks;
  options_.num_host_blocks = sizes.num_host_blocks;
  pool_ = BlockPool(sizes.num_blocks);
  ForgetWhatIsEvicted();
  host_pool_ = BlockPool(sizes.num_host_blocks + 1);
  if (options_.prefix_caching) cache_.Resize(sizes.num_blocks);
  uses_.assign(static_cast<size_t>(sizes.num_blocks), {});
  watermark_blocks_ = static_cast<int>(options_.watermark * pool_.num_usable());
}

BlockId BlockManager::AllocateDevice() {
  const BlockId block = pool_.Allocate();
  uses_[static_cast<size_t>(block)] = {0, now_};
  return block;
}

bool BlockManager::NextWriteIsShared(const Sequence& sequence) const {
  const auto index = static_cast<size_t>(sequence.num_planned() / block_size());
  return index < sequence.blocks.size() && pool_.ref_count(sequence.blocks[index]) > 1;
}

int BlockManager::BlocksToGrow(std::span<const GrowTarget> targets) {
  int needed = 0;
  moved_.clear();  // (shared block, number of targets that write into it)
  for (const auto& [sequence, num_tokens] : targets) {
    needed += std::max(0, BlocksFor(num_tokens) - static_cast<int>(sequence->blocks.size()));
    if (num_tokens <= sequence->num_planned() || !NextWriteIsShared(*sequence)) continue;
    const BlockId block = sequence->blocks[static_cast<size_t>(sequence->num_planned() / block_size())];
    const auto known = std::ranges::find(moved_, block, &BlockCopyPair::source);
    if (known != moved_.end())
      ++known->destination;
    else
      moved_.push_back({block, 1});
  }
  for (const auto& [block, writers] : moved_) {
    needed += std::min(writers, pool_.ref_count(block) - 1);  // when all owners write, the last one does so in place
  }
  return needed;
}

void BlockManager::Grow(Sequence& sequence, int num_tokens, StepPlan& plan) {
  const auto tell = [&](size_t index) {
    if (sequence.slot) plan.tables.push_back({*sequence.slot, static_cast<uint32_t>(index), sequence.blocks[index]});
  };
  // A block that a step in flight writes into has one owner already, so what is copied here was computed before.
  if (num_tokens > sequence.num_planned() && NextWriteIsShared(sequence)) {
    const auto index = static_cast<size_t>(sequence.num_planned() / block_size());
    BlockId& entry = sequence.blocks[index];
    const BlockId copy = AllocateDevice();
    uses_[static_cast<size_t>(copy)].filled = sequence.num_computed % block_size();
    plan.copies.push_back({entry, copy});
    pool_.Release(entry);
    entry = copy;
    tell(index);
  }
  while (static_cast<int>(sequence.blocks.size()) < BlocksFor(num_tokens)) {
    sequence.blocks.push_back(AllocateDevice());
    tell(sequence.blocks.size() - 1);
  }
}

void BlockManager::Computed(Sequence& sequence, int count) {
  const int begin = sequence.num_computed, size = block_size();
  sequence.num_computed += count;
  for (int index = begin / size; index * size < sequence.num_computed; ++index) {
    int& filled = uses_[static_cast<size_t>(sequence.blocks[static_cast<size_t>(index)])].filled;
    filled = std::max(filled, std::min(size, sequence.num_computed - index * size));
  }
  if (!prefix_caching() || sequence.num_computed / size == sequence.contents.num_named) return;
  auto& contents = sequence.contents;
  ExtendHashes(sequence, sequence.num_computed / size);
  for (; contents.num_named < sequence.num_computed / size; ++contents.num_named) {
    const auto index = static_cast<size_t>(contents.num_named);
    const BlockId block = sequence.blocks[index];
    if (block == kNullBlock) return;  // swapped in without the part that had left the window: no longer cached
    bool inserted = false;
    contents.last = cache_.Insert(block, contents.hashes[index], contents.last,
                                  TokensOfBlock(sequence, contents.num_named), inserted);
    if (inserted) pool_.KeepContent(block);
  }
}

void BlockManager::Fork(const Sequence& parent, Sequence& child) {
  QUIRE_CHECK(child.blocks.empty() && child.host_blocks.empty(), "sequence {} holds {} blocks", child.id,
              child.blocks.size() + child.host_blocks.size());
  child.num_computed = parent.num_computed;
  child.contents = parent.contents;
  // What the parent's tokens hold beyond what is shared need not be the child's.
  child.contents.hashes.resize(std::min(child.contents.hashes.size(), static_cast<size_t>(parent.contents.num_named)));
  child.first_block = parent.first_block;
  for (int i = 0; i < BlocksFor(parent.num_computed); ++i) {
    child.blocks.push_back(parent.blocks[static_cast<size_t>(i)]);
    if (i >= child.first_block) pool_.AddReference(child.blocks.back());
  }
}

/// The last block first: a block is never given away before those that continue it.
void BlockManager::ReleaseTable(Sequence& sequence) {
  for (auto i = sequence.blocks.size(); i > static_cast<size_t>(sequence.first_block); --i) {
    pool_.Release(sequence.blocks[i - 1]);
  }
  sequence.blocks.clear();
}

void BlockManager::Free(Sequence& sequence) {
  ReleaseTable(sequence);
  for (auto it = sequence.host_blocks.rbegin(); it != sequence.host_blocks.rend(); ++it) {
    if (*it != kNullBlock) host_pool_.Release(*it);
  }
  sequence.host_blocks.clear();
  sequence.first_block = 0;
  sequence.num_computed = 0;
  sequence.contents.Restart();
}

void BlockManager::LeaveWindow(Sequence& sequence) {
  if (options_.sliding_window == 0) return;
  // The next query stands at num_computed and sees positions from num_computed - window + 1 on.
  const int dead = std::max(0, sequence.num_computed - options_.sliding_window + 1) / block_size();
  for (; sequence.first_block < std::min(dead, static_cast<int>(sequence.blocks.size())); ++sequence.first_block) {
    BlockId& entry = sequence.blocks[static_cast<size_t>(sequence.first_block)];
    pool_.Release(entry);
    entry = kNullBlock;
  }
}

}  // namespace quire
