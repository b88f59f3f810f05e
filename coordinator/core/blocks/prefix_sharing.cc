#include "coordinator/core/blocks/prefix_sharing.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

PrefixSharing::PrefixSharing(const BlockManagerOptions& options, BlockPool& pool)
    : enabled_(options.prefix_caching),
      has_states_(options.state_blocks > 0),
      block_size_(options.block_size),
      pool_(pool),
      cache_(options.num_blocks, options.block_size, options.hash_key, options.hash_bits),
      checkpoints_(has_states_ ? options.num_blocks : 1, pool) {}

void PrefixSharing::Resize(int num_blocks, int state_blocks) {
  cache_.Resize(num_blocks);
  has_states_ = state_blocks > 0;
  checkpoints_.Resize(has_states_ ? num_blocks : 1);
}

std::span<const TokenId> PrefixSharing::TokensOfBlock(const Sequence& sequence, int index) const {
  return std::span(sequence.tokens).subspan(static_cast<size_t>(index * block_size_), static_cast<size_t>(block_size_));
}

void PrefixSharing::ExtendHashes(Sequence& sequence, int num_blocks) {
  auto& hashes = sequence.contents.hashes;
  while (static_cast<int>(hashes.size()) < num_blocks) {
    const BlockHash& parent = hashes.empty() ? sequence.contents.root : hashes.back();
    hashes.push_back(cache_.Chain(parent, TokensOfBlock(sequence, static_cast<int>(hashes.size()))));
  }
}

const BlockHash* PrefixSharing::HashOfBlock(Sequence& sequence, int index) {
  if (!enabled_ || (index + 1) * block_size_ > sequence.num_tokens()) return nullptr;
  ExtendHashes(sequence, index + 1);
  return &sequence.contents.hashes[static_cast<size_t>(index)];
}

void PrefixSharing::NameComputed(Sequence& sequence) {
  auto& contents = sequence.contents;
  const int num_full = sequence.num_computed / block_size_;
  if (!enabled_ || num_full == contents.num_named) return;
  ExtendHashes(sequence, num_full);
  for (; contents.num_named < num_full; ++contents.num_named) {
    const auto index = static_cast<size_t>(contents.num_named);
    const BlockId block = sequence.blocks[index];
    if (block == kNullBlock) return;  // swapped in without the blocks outside the window: none is cached
    bool inserted = false;
    contents.last = cache_.Insert(block, contents.hashes[index], contents.last,
                                  TokensOfBlock(sequence, contents.num_named), inserted);
    if (!inserted) continue;
    pool_.KeepContent(block);
    for (CacheListener* listener : listeners_) listener->OnFindable(sequence, contents.num_named);
  }
}

/// Collects into hits_ the cached blocks that hold the sequence's next tokens, up to token max_tokens. The sequence's
/// computed tokens fill whole blocks.
void PrefixSharing::FindNext(Sequence& sequence, int max_tokens) {
  hits_.clear();
  ContentId content = sequence.contents.last;
  for (int index = sequence.num_computed / block_size_; (index + 1) * block_size_ <= max_tokens; ++index) {
    const BlockHash* hash = HashOfBlock(sequence, index);
    if (hash == nullptr) break;
    const auto hit = cache_.Find(*hash, content, TokensOfBlock(sequence, index));
    if (!hit) break;
    hits_.push_back(*hit);
    content = hit->content;
  }
}

/// Returns the number of leading hits_ up to the last one with a checkpoint; 0: none has a checkpoint.
size_t PrefixSharing::DeepestState() const {
  size_t count = hits_.size();
  while (count > 0 && checkpoints_.Find(hits_[count - 1].block).empty()) --count;
  return count;
}

bool PrefixSharing::StandsAtNamedBlocks(const Sequence& sequence) const {
  const int begin = sequence.num_computed;
  return begin == std::ssize(sequence.blocks) * block_size_ && begin == sequence.contents.num_named * block_size_;
}

/// Takes over the first `count` of hits_. Returns the number of tokens gained.
int PrefixSharing::TakeHits(Sequence& sequence, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    pool_.AddReference(hits_[i].block);
    sequence.blocks.push_back(hits_[i].block);
  }
  const int gained = static_cast<int>(count) * block_size_;
  sequence.num_computed += gained;
  sequence.contents.num_named += static_cast<int>(count);
  if (count > 0) sequence.contents.last = hits_[count - 1].content;
  return gained;
}

int PrefixSharing::CountNext(Sequence& sequence, int max_tokens) {
  FindNext(sequence, max_tokens);
  return static_cast<int>(hits_.size());
}

int PrefixSharing::AttachNames(Sequence& sequence, int max_tokens) {
  if (!StandsAtNamedBlocks(sequence)) return 0;
  FindNext(sequence, max_tokens);
  return TakeHits(sequence, hits_.size());
}

int PrefixSharing::Attach(Sequence& sequence, int max_tokens) {
  if (!StandsAtNamedBlocks(sequence)) return 0;
  const int begin = sequence.num_computed;
  FindNext(sequence, std::min(max_tokens, sequence.num_tokens() - 1));
  size_t usable = hits_.size();
  if (has_states_) {
    sequence.shared_prefix = begin + static_cast<int>(hits_.size()) * block_size_;
    usable = DeepestState();
  }
  if (usable == 0) return 0;
  const int gained = TakeHits(sequence, usable);
  if (!has_states_) return gained;
  pool_.ReleaseAll(sequence.state);
  const std::span<const BlockId> state = checkpoints_.Find(hits_[usable - 1].block);
  sequence.state.assign(state.begin(), state.end());
  for (const BlockId block : state) pool_.AddReference(block);
  sequence.begun = sequence.num_computed;
  return gained;
}

int PrefixSharing::HeldBlocks(Sequence& sequence, int max_blocks) {
  ContentId content = PrefixCache::RootContent(sequence.contents.root);
  int held = 0, usable = 0;
  bool all_held = true;
  for (int index = 0; index < max_blocks && (index + 1) * block_size_ < sequence.num_tokens(); ++index) {
    const BlockHash* hash = HashOfBlock(sequence, index);
    if (hash == nullptr) break;
    const auto hit = cache_.Find(*hash, content, TokensOfBlock(sequence, index));
    if (!hit) break;
    all_held = all_held && pool_.ref_count(hit->block) > 0;
    if (!all_held && !has_states_) break;
    held += all_held;
    if (has_states_ && !checkpoints_.Find(hit->block).empty()) usable = index + 1;
    content = hit->content;
  }
  return has_states_ ? std::min(held, usable) : held;
}

CheckpointId PrefixSharing::KeepState(const Sequence& sequence, int num_tokens, std::span<const BlockId> blocks) {
  const auto& contents = sequence.contents;
  if (!enabled_ || num_tokens == 0 || contents.num_named * block_size_ != num_tokens) return 0;
  const auto end = cache_.BlockOf(contents.hashes[static_cast<size_t>(contents.num_named) - 1], contents.last);
  const CheckpointId kept = end ? checkpoints_.Keep(*end, blocks) : 0;
  if (kept == 0) return 0;
  for (CacheListener* listener : listeners_) listener->OnStateKept(sequence, num_tokens, kept);
  return kept;
}

std::vector<BlockId> PrefixSharing::FindBlocks(std::string_view salt, std::span<const TokenId> tokens,
                                               int adapter) const {
  std::vector<BlockId> found;
  if (!enabled_) return found;
  const auto size = static_cast<size_t>(block_size_);
  BlockHash hash = cache_.Root(salt, adapter);
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

int PrefixSharing::UsableBlocks(std::span<const BlockId> blocks) const {
  size_t count = blocks.size();
  while (has_states_ && count > 0 && checkpoints_.Find(blocks[count - 1]).empty()) --count;
  return static_cast<int>(count);
}

std::vector<BlockId> PrefixSharing::Find(std::string_view salt, std::span<const TokenId> tokens, int adapter) const {
  std::vector<BlockId> found = FindBlocks(salt, tokens, adapter);
  found.resize(static_cast<size_t>(UsableBlocks(found)));
  if (!has_states_ || found.empty()) return found;
  const std::span<const BlockId> state = checkpoints_.Find(found.back());
  found.insert(found.end(), state.begin(), state.end());
  return found;
}

void PrefixSharing::Forget(BlockId block) {
  if (const auto hash = cache_.HashOf(block)) {
    for (CacheListener* listener : listeners_) listener->OnRemoved(*hash);
  }
  cache_.Erase(block);
  if (has_states_) checkpoints_.ForgetOf(block);
}

void PrefixSharing::Enable(bool enabled) {
  if (!enabled) Flush();
  enabled_ = enabled;
}

void PrefixSharing::Flush() {
  if (!enabled_) return;
  checkpoints_.Clear();
  for (BlockId block = 1; block <= pool_.num_usable(); ++block) {
    cache_.Erase(block);
    pool_.DropContent(block);
  }
  for (CacheListener* listener : listeners_) listener->OnCleared();
}

void PrefixSharing::CheckHashes(const Sequence& sequence) const {
  BlockHash hash = sequence.contents.root;
  for (size_t i = 0; i < sequence.contents.hashes.size(); ++i) {
    hash = cache_.Chain(hash, TokensOfBlock(sequence, static_cast<int>(i)));
    QUIRE_CHECK(hash == sequence.contents.hashes[i], "sequence {}: block {} has another hash than is noted",
                sequence.id, i);
  }
}

}  // namespace quire
