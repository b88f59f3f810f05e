// The half of BlockManager that serves the prefix cache and swapping.
#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/block_manager.h"

namespace quire {

std::span<const TokenId> BlockManager::TokensOfBlock(const Sequence& sequence, int index) const {
  return std::span(sequence.tokens)
      .subspan(static_cast<size_t>(index * block_size()), static_cast<size_t>(block_size()));
}

void BlockManager::ExtendHashes(Sequence& sequence, int num_blocks) {
  auto& hashes = sequence.contents.hashes;
  while (static_cast<int>(hashes.size()) < num_blocks) {
    const BlockHash& parent = hashes.empty() ? sequence.contents.root : hashes.back();
    hashes.push_back(cache_.Chain(parent, TokensOfBlock(sequence, static_cast<int>(hashes.size()))));
  }
}

void BlockManager::CheckHashes(const Sequence& sequence) const {
  BlockHash hash = sequence.contents.root;
  for (size_t i = 0; i < sequence.contents.hashes.size(); ++i) {
    hash = cache_.Chain(hash, TokensOfBlock(sequence, static_cast<int>(i)));
    QUIRE_CHECK(hash == sequence.contents.hashes[i], "sequence {}: block {} has another hash than is noted",
                sequence.id, i);
  }
}

const BlockHash* BlockManager::HashOfBlock(Sequence& sequence, int index) {
  if (!prefix_caching() || (index + 1) * block_size() > sequence.num_tokens()) return nullptr;
  ExtendHashes(sequence, index + 1);
  return &sequence.contents.hashes[static_cast<size_t>(index)];
}

int BlockManager::AttachCached(Sequence& sequence, int max_tokens) {
  const int begin = sequence.num_computed;
  if (begin % block_size() != 0 || begin / block_size() != static_cast<int>(sequence.blocks.size())) return 0;
  auto& contents = sequence.contents;
  while (sequence.num_computed + block_size() <= std::min(max_tokens, sequence.num_tokens() - 1)) {
    const int index = sequence.num_computed / block_size();
    const BlockHash* hash = HashOfBlock(sequence, index);
    if (hash == nullptr || contents.num_named != index) break;
    const auto hit = cache_.Find(*hash, contents.last, TokensOfBlock(sequence, index));
    if (!hit) break;
    pool_.AddReference(hit->block);
    sequence.blocks.push_back(hit->block);
    sequence.num_computed += block_size();
    contents.last = hit->content;
    ++contents.num_named;
  }
  LeaveWindow(sequence);
  return sequence.num_computed - begin;
}

int BlockManager::HeldPrefixBlocks(Sequence& sequence) {
  ContentId content = PrefixCache::RootContent(sequence.contents.root);
  int blocks = 0;
  for (; (blocks + 1) * block_size() < sequence.num_tokens(); ++blocks) {
    const BlockHash* hash = HashOfBlock(sequence, blocks);
    if (hash == nullptr) break;
    const auto hit = cache_.Find(*hash, content, TokensOfBlock(sequence, blocks));
    if (!hit || pool_.ref_count(hit->block) == 0) break;
    content = hit->content;
  }
  return blocks;
}

std::vector<BlockId> BlockManager::FindPrefix(std::string_view salt, std::span<const TokenId> tokens) const {
  std::vector<BlockId> found;
  if (!prefix_caching()) return found;
  const auto size = static_cast<size_t>(block_size());
  BlockHash hash = cache_.Root(salt);
  ContentId content = PrefixCache::RootContent(hash);
  for (; tokens.size() >= size; tokens = tokens.subspan(size)) {
    hash = cache_.Chain(hash, tokens.first(size));
    const auto hit = cache_.Find(hash, content, tokens.first(size));
    if (!hit) break;
    found.push_back(hit->block);
    content = hit->content;
  }
  return found;
}

const BlockManager::Pin* BlockManager::PinPrefix(std::string_view salt, std::span<const TokenId> tokens,
                                                 double expires_seconds) {
  std::vector<BlockId> blocks = FindPrefix(salt, tokens);
  size_t pinned = blocks.size();
  for (const Pin& pin : pins_) pinned += pin.blocks.size();
  if (blocks.empty() || pinned > static_cast<size_t>(num_usable()) / 2) return nullptr;
  for (const BlockId block : blocks) pool_.AddReference(block);
  pins_.push_back({next_pin_++, expires_seconds, std::move(blocks)});
  return &pins_.back();
}

void BlockManager::Release(const Pin& pin) {
  for (auto it = pin.blocks.rbegin(); it != pin.blocks.rend(); ++it) pool_.Release(*it);
}

bool BlockManager::Unpin(uint64_t id) {
  const auto pin = std::ranges::find(pins_, id, &Pin::id);
  if (pin == pins_.end()) return false;
  Release(*pin);
  pins_.erase(pin);
  return true;
}

void BlockManager::ExpirePins(double now) {
  std::erase_if(pins_, [&](const Pin& pin) {
    if (pin.expires_seconds > now) return false;
    Release(pin);
    return true;
  });
}

bool BlockManager::BreakPins() {
  for (const Pin& pin : pins_) Release(pin);
  return !std::exchange(pins_, {}).empty();
}

void BlockManager::FlushCache() {
  if (!prefix_caching()) return;
  for (BlockId block = 1; block <= num_usable(); ++block) {
    cache_.Erase(block);
    pool_.DropContent(block);
  }
}

int BlockManager::DistinctBlocks(std::span<const Sequence> sequences) const {
  std::vector<BlockId> ids;
  for (const Sequence& sequence : sequences) {
    ids.insert(ids.end(), sequence.blocks.begin(), sequence.blocks.end());
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return static_cast<int>(ids.size()) - (!ids.empty() && ids.front() == kNullBlock ? 1 : 0);
}

void BlockManager::SwapOut(std::span<Sequence> sequences, StepPlan& plan) {
  moved_.clear();
  for (Sequence& sequence : sequences) {
    for (const BlockId block : sequence.blocks) {
      if (block == kNullBlock) {
        sequence.host_blocks.push_back(kNullBlock);
        continue;
      }
      const bool may_be_shared = pool_.ref_count(block) > 1;
      auto moved = may_be_shared ? std::ranges::find(moved_, block, &BlockCopyPair::source) : moved_.end();
      if (moved == moved_.end()) {
        moved = moved_.insert(moved, {block, host_pool_.Allocate()});
      } else {
        host_pool_.AddReference(moved->destination);
      }
      sequence.host_blocks.push_back(moved->destination);
    }
  }
  plan.swap_outs.insert(plan.swap_outs.end(), moved_.begin(), moved_.end());
  for (Sequence& sequence : sequences) ReleaseTable(sequence);
}

void BlockManager::SwapIn(std::span<Sequence> sequences, StepPlan& plan) {
  moved_.clear();
  for (Sequence& sequence : sequences) {
    for (const BlockId host : sequence.host_blocks) {
      if (host == kNullBlock) {
        sequence.blocks.push_back(kNullBlock);
        continue;
      }
      const bool is_shared = host_pool_.ref_count(host) > 1;
      auto moved = is_shared ? std::ranges::find(moved_, host, &BlockCopyPair::source) : moved_.end();
      if (moved == moved_.end()) {
        moved = moved_.insert(moved, {host, AllocateDevice()});
      } else {
        pool_.AddReference(moved->destination);
      }
      const int before = static_cast<int>(sequence.blocks.size()) * block_size();
      int& filled = uses_[static_cast<size_t>(moved->destination)].filled;
      filled = std::max(filled, std::clamp(sequence.num_computed - before, 0, block_size()));
      sequence.blocks.push_back(moved->destination);
    }
  }
  plan.swap_ins.insert(plan.swap_ins.end(), moved_.begin(), moved_.end());
  for (Sequence& sequence : sequences) {
    for (const BlockId host : sequence.host_blocks) {
      if (host != kNullBlock) host_pool_.Release(host);
    }
    sequence.host_blocks.clear();
    // The new blocks are not findable yet: name all contents anew when the next tokens are computed.
    sequence.contents.Restart();
  }
}

}  // namespace quire
