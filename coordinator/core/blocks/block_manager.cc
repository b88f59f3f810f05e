#include "coordinator/core/blocks/block_manager.h"

#include <algorithm>
#include <vector>

#include "comm/base/error.h"

namespace quire {

namespace {

/// True when a sequence can continue elsewhere from its full blocks alone. Recurrent states need state blocks besides,
/// and a sliding window drops leading blocks.
bool FullBlocksSuffice(const BlockManagerOptions& options) {
  return options.state_blocks == 0 && options.sliding_window == 0;
}

/// True when the block of the sequence's next token exists and has other owners.
bool NextWriteIsShared(const Sequence& sequence, const BlockPool& pool, int block_size) {
  const auto index = static_cast<size_t>(sequence.num_planned() / block_size);
  return index < sequence.blocks.size() && pool.ref_count(sequence.blocks[index]) > 1;
}

/// Adds entry `index` of the sequence's block table to the plan, if the workers know the sequence.
void TellEntry(const Sequence& sequence, size_t index, StepPlan& plan) {
  if (sequence.slot) plan.tables.push_back({*sequence.slot, static_cast<uint32_t>(index), sequence.blocks[index]});
}

/// Gives back all blocks of a sequence that was made only to give ids to the blocks' contents
/// (PrefixSharing::AttachNames).
void DropNamed(Sequence& sequence, BlockPool& pool) {
  sequence.num_computed = 0;
  pool.ReleaseAll(sequence.blocks);
  sequence.blocks.clear();
  sequence.contents.Restart();
}

}  // namespace

BlockManager::BlockManager(const BlockManagerOptions& options)
    : options_(options),
      pool_(
          options.num_blocks,
          [this](BlockId block) {
            host_cache_.OnReused(block);
            prefixes_.Forget(block);
          },
          [this](BlockId block) { host_cache_.OnReleased(block); }),
      host_pool_(options.num_host_blocks + 1, [this](BlockId block) { host_cache_.Forget(block); }),
      fill_(options.num_blocks),
      prefixes_(options, pool_),
      host_cache_(options, pool_, host_pool_, prefixes_),
      states_(options, pool_, fill_, prefixes_),
      pins_(pool_),
      swap_(pool_, fill_, host_pool_, options.block_size),
      host_holdings_(host_pool_),
      device_holdings_(pool_),
      watermark_blocks_(static_cast<int>(options.watermark * pool_.num_usable())) {
  prefixes_.AddListener(&host_cache_);
}

void BlockManager::Resize(const PoolSizes& sizes) {
  options_.num_blocks = sizes.num_blocks;
  options_.num_host_blocks = sizes.num_host_blocks;
  options_.state_blocks = sizes.state_blocks;
  pool_.Resize(sizes.num_blocks);
  host_pool_.Resize(sizes.num_host_blocks + 1);
  fill_.Resize(sizes.num_blocks);
  prefixes_.Resize(sizes.num_blocks, sizes.state_blocks);
  host_cache_.Resize(sizes);
  states_.Resize(sizes.state_blocks);
  watermark_blocks_ = static_cast<int>(options_.watermark * pool_.num_usable());
}

BlockId BlockManager::Allocate() {
  const BlockId block = pool_.Allocate();
  fill_.Open(block);
  return block;
}

int BlockManager::BlocksToGrow(std::span<const GrowTarget> targets) const {
  struct SharedWrite {
    BlockId block;
    int writers;  // number of targets that write into the block
  };
  std::vector<SharedWrite> shared;
  int needed = 0;
  for (const auto& [sequence, num_tokens, from_host, slice, slice_cost] : targets) {
    needed += std::max(0, BlocksFor(num_tokens) - static_cast<int>(sequence->blocks.size()));
    if (num_tokens <= sequence->num_planned() || !NextWriteIsShared(*sequence, pool_, block_size())) continue;
    const BlockId block = sequence->blocks[static_cast<size_t>(sequence->num_planned() / block_size())];
    const auto known = std::ranges::find(shared, block, &SharedWrite::block);
    if (known != shared.end())
      ++known->writers;
    else
      shared.push_back({block, 1});
  }
  for (const auto& [block, writers] : shared) {
    needed += std::min(writers, pool_.ref_count(block) - 1);  // if all owners write, the last owner writes in place
  }
  return has_states() ? needed + states_.BlocksToGrow(targets) : needed;
}

void BlockManager::Extend(Sequence& sequence, int num_tokens, StepPlan& plan) {
  while (static_cast<int>(sequence.blocks.size()) < BlocksFor(num_tokens)) {
    sequence.blocks.push_back(Allocate());
    TellEntry(sequence, sequence.blocks.size() - 1, plan);
  }
}

void BlockManager::Grow(Sequence& sequence, int num_tokens, StepPlan& plan, int reserved) {
  // No outstanding step writes a shared block, so all tokens in the block that is now copied are computed.
  if (num_tokens > sequence.num_planned() && NextWriteIsShared(sequence, pool_, block_size())) {
    const auto index = static_cast<size_t>(sequence.num_planned() / block_size());
    BlockId& entry = sequence.blocks[index];
    const BlockId copy = Allocate();
    fill_.Raise(copy, sequence.num_computed % block_size());
    plan.copies.push_back({entry, copy});
    pool_.Release(entry);
    entry = copy;
    TellEntry(sequence, index, plan);
  }
  Extend(sequence, num_tokens, plan);
  if (has_states() && num_tokens > sequence.num_planned()) states_.Grow(sequence, reserved, plan);
}

int BlockManager::BringFromHost(Sequence& sequence, int count, StepPlan& plan) {
  count = host_cache_.Count(sequence, sequence.num_computed + count * block_size());
  if (count == 0) return 0;
  // Workers bring a plan's blocks from the host before they copy blocks on the device. So if this plan copies the
  // sequence's state, the state's blocks must not be given back: they could be filled from the host before the copy.
  if (has_states() && states_.IsCopiedBy(plan, sequence)) return 0;
  const int begin = sequence.num_computed / block_size(), end = begin + count;
  prefixes_.AttachNames(sequence, end * block_size());
  std::vector<BlockId> sources;
  for (int index = static_cast<int>(sequence.blocks.size()); index < end; ++index) {
    sources.push_back(*host_cache_.CopyOf(sequence, index));
    sequence.blocks.push_back(Allocate());
    plan.swap_ins.push_back({sources.back(), sequence.blocks.back()});
  }
  Computed(sequence, end * block_size() - sequence.num_computed);
  if (has_states()) {
    const std::span<const BlockId> state = host_cache_.StateAfter(*host_cache_.CopyOf(sequence, end - 1));
    states_.Renew(sequence);
    for (size_t i = 0; i < state.size(); ++i) plan.swap_ins.push_back({state[i], sequence.state[i]});
    sources.insert(sources.end(), state.begin(), state.end());
  }
  host_cache_.Bring(sources);
  return count;
}

void BlockManager::Computed(Sequence& sequence, int count) {
  const int begin = sequence.num_computed, size = block_size();
  sequence.num_computed += count;
  for (int index = begin / size; index * size < sequence.num_computed; ++index) {
    fill_.Raise(sequence.blocks[static_cast<size_t>(index)], std::min(size, sequence.num_computed - index * size));
  }
  prefixes_.NameComputed(sequence);
  if (has_states()) states_.Computed(sequence);
}

void BlockManager::Fork(const Sequence& parent, Sequence& child) {
  QUIRE_CHECK(child.blocks.empty() && child.host_blocks.empty(), "sequence {} holds {} blocks", child.id,
              child.blocks.size() + child.host_blocks.size());
  child.num_computed = parent.num_computed;
  child.contents = parent.contents;
  // Only the leading num_named blocks are sure to hold the same tokens in the child. Later hashes are computed again.
  child.contents.hashes.resize(std::min(child.contents.hashes.size(), static_cast<size_t>(parent.contents.num_named)));
  child.first_block = parent.first_block;
  for (int i = 0; i < BlocksFor(parent.num_computed); ++i) {
    child.blocks.push_back(parent.blocks[static_cast<size_t>(i)]);
    if (i >= child.first_block) pool_.AddReference(child.blocks.back());
  }
  if (has_states()) states_.Fork(parent, child);
}

void BlockManager::LeaveWindow(Sequence& sequence) {
  if (options_.sliding_window == 0) return;
  // The next query is at position num_computed and sees positions from num_computed - window + 1 on.
  const int dead = std::max(0, sequence.num_computed - options_.sliding_window + 1) / block_size();
  for (; sequence.first_block < std::min(dead, static_cast<int>(sequence.blocks.size())); ++sequence.first_block) {
    BlockId& entry = sequence.blocks[static_cast<size_t>(sequence.first_block)];
    pool_.Release(entry);
    entry = kNullBlock;
  }
}

void BlockManager::Trim(Sequence& sequence, int num_tokens) {
  while (static_cast<int>(sequence.blocks.size()) > BlocksFor(num_tokens)) {
    if (sequence.blocks.back() != kNullBlock) pool_.Release(sequence.blocks.back());
    sequence.blocks.pop_back();
  }
}

std::vector<BlockId> BlockManager::ShareFull(uint64_t ticket, const Sequence& sequence, int max_blocks) {
  if (!FullBlocksSuffice(options_)) return {};
  const int full = std::min(sequence.num_computed / block_size(), static_cast<int>(sequence.blocks.size()));
  const auto end = sequence.blocks.begin() + std::min(full, max_blocks);
  std::vector<BlockId> blocks(sequence.blocks.begin(), end);
  if (!blocks.empty()) device_holdings_.Share(ticket, blocks);
  return blocks;
}

bool BlockManager::ReserveForFull(uint64_t ticket, int num_blocks) {
  const bool can_cache = prefixes_.enabled() && FullBlocksSuffice(options_);
  return can_cache && num_blocks <= num_free() - watermark_blocks_ && device_holdings_.Reserve(ticket, num_blocks);
}

void BlockManager::CacheState(uint64_t ticket, Sequence& sequence) {
  const MigrationHolding* holding = device_holdings_.Find(ticket);
  if (holding == nullptr) return;
  const auto count = static_cast<size_t>(states_.num_blocks());
  QUIRE_CHECK(holding->blocks.size() >= count, "{} blocks hold a state of {}", holding->blocks.size(), count);
  const std::span<const BlockId> state = std::span(holding->blocks).last(count);
  for (const BlockId block : state) fill_.Open(block);
  if (prefixes_.AttachNames(sequence, sequence.num_tokens()) == sequence.num_tokens())
    prefixes_.KeepState(sequence, sequence.num_tokens(), state);
  DropNamed(sequence, pool_);
  device_holdings_.Release(holding->ticket);
}

void BlockManager::CacheArrived(uint64_t ticket, int num_blocks, Sequence& sequence, int prefix) {
  const MigrationHolding* holding = device_holdings_.Find(ticket);
  if (holding == nullptr) return;
  const int count = std::min(num_blocks, static_cast<int>(holding->blocks.size()));
  QUIRE_CHECK(count * block_size() <= sequence.num_tokens(), "{} blocks of {} tokens arrived", count,
              sequence.num_tokens());
  const bool has_prefix = prefixes_.AttachNames(sequence, prefix * block_size()) == prefix * block_size();
  for (int i = prefix; has_prefix && i < count; ++i) {
    const BlockId block = holding->blocks[static_cast<size_t>(i)];
    sequence.blocks.push_back(block);
    pool_.AddReference(block);
    fill_.Open(block);
    fill_.Raise(block, block_size());
  }
  sequence.num_computed = static_cast<int>(sequence.blocks.size()) * block_size();
  prefixes_.NameComputed(sequence);
  DropNamed(sequence, pool_);
  device_holdings_.Release(ticket);
}

void BlockManager::Free(Sequence& sequence) {
  pool_.ReleaseAll(sequence.blocks);
  sequence.blocks.clear();
  host_pool_.ReleaseAll(sequence.host_blocks);
  sequence.host_blocks.clear();
  if (has_states()) states_.Free(sequence);
  host_pool_.ReleaseAll(sequence.host_state);
  sequence.host_state.clear();
  sequence.first_block = 0;
  sequence.num_passed = 0;
  sequence.num_computed = 0;
  sequence.contents.Restart();
}

}  // namespace quire
