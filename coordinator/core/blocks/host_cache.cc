#include "coordinator/core/blocks/host_cache.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

namespace {

// A hash identifies the tokens before a block, too. So all copies have the same parent in the table of copies.
constexpr ContentId kAnyParent = 1;

}  // namespace

HostCache::HostCache(const BlockManagerOptions& options, BlockPool& device, BlockPool& host, PrefixSharing& prefixes)
    : may_be_on_(options.host_cache && options.sliding_window == 0),
      block_size_(options.block_size),
      device_(device),
      host_(host),
      prefixes_(prefixes),
      cache_(options.num_host_blocks + 1, options.block_size, options.hash_key, options.hash_bits),
      states_(options.num_host_blocks + 1, host) {
  Resize({options.num_blocks, options.num_host_blocks, options.state_blocks});
}

void HostCache::Resize(const PoolSizes& sizes) {
  on_ = may_be_on_ && sizes.num_host_blocks > 1;
  has_states_ = sizes.state_blocks > 0;
  states_.Resize(sizes.num_host_blocks + 1);
  cache_.Resize(sizes.num_host_blocks + 1);
  ahead_.assign(static_cast<size_t>(sizes.num_blocks), 0);
  num_ahead_ = 0;
  waiting_.clear();
}

void HostCache::OnReleased(BlockId block) {
  if (!on_) return;
  if (waiting_.size() == ahead_.size()) waiting_.pop_front();
  waiting_.push_back(block);
}

void HostCache::OnReused(BlockId block) {
  const auto hash = prefixes_.cache().HashOf(block);
  if (on_ && hash) {
    const std::span<const TokenId> tokens = prefixes_.cache().TokensOf(block);
    if (!Find(*hash, tokens)) leaving_.push_back({block, *hash, {tokens.begin(), tokens.end()}});
  }
  SetAhead(block, false);
}

void HostCache::SetAhead(BlockId block, bool ahead) {
  uint8_t& mark = ahead_[static_cast<size_t>(block)];
  num_ahead_ += static_cast<int>(ahead) - mark;
  mark = ahead;
}

void HostCache::Forget(BlockId host) {
  cache_.Erase(host);
  states_.ForgetOf(host);
}

void HostCache::OnCleared() {
  states_.Clear();
  for (BlockId host = 1; host <= host_.num_usable(); ++host) {
    if (!cache_.HashOf(host)) continue;
    cache_.Erase(host);
    host_.DropContent(host);
  }
  std::ranges::fill(ahead_, 0);
  num_ahead_ = 0;
  waiting_.clear();
}

std::optional<BlockId> HostCache::Find(const BlockHash& hash, std::span<const TokenId> tokens) const {
  const auto hit = cache_.Find(hash, kAnyParent, tokens);
  if (!hit) return std::nullopt;
  return hit->block;
}

std::optional<BlockId> HostCache::CopyOf(Sequence& sequence, int index) const {
  const BlockHash* hash = prefixes_.HashOfBlock(sequence, index);
  if (hash == nullptr) return std::nullopt;
  return Find(*hash, prefixes_.TokensOfBlock(sequence, index));
}

int HostCache::Count(Sequence& sequence, int max_tokens) const {
  if (num_copies() == 0 || !prefixes_.StandsAtNamedBlocks(sequence)) return 0;
  const int begin = sequence.num_computed / block_size_, end = std::min(max_tokens, sequence.num_tokens() - 1);
  const int on_device = prefixes_.CountNext(sequence, end);
  int usable = 0;
  for (int count = 0; (begin + count + 1) * block_size_ <= end; ++count) {
    const auto copy = CopyOf(sequence, begin + count);
    if (!copy && count >= on_device) break;
    if (copy && (!has_states_ || !StateAfter(*copy).empty())) usable = count + 1;
  }
  return usable;
}

void HostCache::HoldForPlan(BlockId host) {
  host_.AddReference(host);
  held_.push_back(host);
}

void HostCache::Bring(std::span<const BlockId> hosts) {
  // EndPlan releases the blocks in this order, the last one first, so that a block is reused after the blocks that
  // continue its content.
  std::ranges::for_each(hosts.rbegin(), hosts.rend(), [this](BlockId host) { HoldForPlan(host); });
  num_found_ += std::ssize(hosts);
  num_brought_ += hosts.size();
}

void HostCache::EndPlan() {
  for (const BlockId host : held_) host_.Release(host);
  held_.clear();
  leaving_.clear();
  num_brought_ = 0;
}

/// Lets the plan copy device blocks into host blocks, which are held for the plan. Returns the number of copies.
int HostCache::CopyTo(std::span<const BlockId> blocks, std::span<const BlockId> hosts, StepPlan& plan) {
  for (size_t i = 0; i < blocks.size(); ++i) plan.swap_outs.push_back({blocks[i], hosts[i]});
  num_copied_ += std::ssize(blocks);
  return static_cast<int>(blocks.size());
}

/// Lets the plan copy the block to the host. Returns the copy, which is held for the plan; nothing if another copy has
/// the same hash.
std::optional<BlockId> HostCache::NewCopy(BlockId block, const BlockHash& hash, std::span<const TokenId> tokens,
                                          StepPlan& plan) {
  const BlockId copy = host_.Allocate();
  held_.push_back(copy);
  bool inserted = false;
  cache_.Insert(copy, hash, kAnyParent, tokens, inserted);
  if (!inserted) return std::nullopt;
  host_.KeepContent(copy);
  CopyTo({&block, 1}, {&copy, 1}, plan);
  return copy;
}

/// Copies the next waiting block and the checkpoint that belongs to the block. If the waiting block is part of a state,
/// copies the state and the block before the state. Copies nothing if the waiting block is in use or no longer cached.
/// Content that has a copy already is not copied again. Returns the number of copied blocks.
int HostCache::CopyNext(StepPlan& plan) {
  BlockId block = waiting_.front();
  waiting_.pop_front();
  const StateCheckpoints& kept = prefixes_.checkpoints();
  const bool is_state = has_states_ && kept.Holds(block);
  if (device_.ref_count(block) > 0) return 0;
  if (is_state) block = kept.EndOf(block);  // may be in use; no step writes it
  const auto hash = prefixes_.cache().HashOf(block);
  if (!hash) return 0;
  SetAhead(block, true);
  const std::span<const TokenId> tokens = prefixes_.cache().TokensOf(block);
  auto copy = Find(*hash, tokens);
  int copied = 0;
  if (copy) {
    HoldForPlan(*copy);
  } else {
    copy = NewCopy(block, *hash, tokens, plan);
    if (!copy) return 0;
    copied = 1;
  }
  if (!has_states_) return copied;
  const std::span<const BlockId> state = kept.Find(block);
  if (state.empty() || !StateAfter(*copy).empty() || std::ssize(state) > host_.num_free()) return copied;
  std::vector<BlockId> hosts;
  while (hosts.size() < state.size()) hosts.push_back(host_.Allocate());
  held_.insert(held_.end(), hosts.begin(), hosts.end());
  states_.Keep(*copy, hosts);
  return copied + CopyTo(state, hosts, plan);
}

void HostCache::CopyAhead(int most, StepPlan& plan) {
  if (!plan.swap_outs.empty() || plan.swap_ins.size() != num_brought_) return;
  for (const auto& [block, hash, tokens] : leaving_) {
    if (most == 0 || host_.num_free() == 0) break;
    if (!Find(hash, tokens) && NewCopy(block, hash, tokens, plan)) --most;
  }
  // Copies of blocks that are still cached on the device take at most half of the host pool. The other half remains for
  // copies whose device blocks were reused.
  const int most_ahead = host_.num_usable() / 2;
  while (most > 0 && !waiting_.empty() && num_ahead_ < most_ahead && host_.num_free() > 0) most -= CopyNext(plan);
}

void HostCache::CheckIntegrity() const {
  QUIRE_CHECK(held_.empty(), "{} host blocks are held for a plan", held_.size());
  cache_.CheckIntegrity();
  states_.CheckIntegrity();
  for (const auto& [id, state] : states_.all())
    QUIRE_CHECK(cache_.HashOf(state.end), "a state is behind host block {}, which has no copy", state.end);
  for (BlockId host = 1; host <= host_.num_usable(); ++host) {
    const bool is_used = cache_.HashOf(host).has_value() || states_.Holds(host);
    QUIRE_CHECK(is_used == host_.keeps(host), "host block {} is kept for nothing, or not kept", host);
    QUIRE_CHECK(!is_used || host_.ref_count(host) == 0, "host block {} has a copy and a holder", host);
  }
  for (size_t block = 0; block < ahead_.size(); ++block)
    QUIRE_CHECK(ahead_[block] == 0 || prefixes_.cache().HashOf(static_cast<BlockId>(block)),
                "block {} is copied ahead, but not cached", block);
  const auto ahead = std::ranges::count(ahead_, 1);
  QUIRE_CHECK(ahead == num_ahead_, "{} blocks are copied ahead, {} counted", ahead, num_ahead_);
}

}  // namespace quire
