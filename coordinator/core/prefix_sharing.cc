#include "coordinator/core/prefix_sharing.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

PrefixSharing::PrefixSharing(const BlockManagerOptions& options, BlockPool& pool)
    : enabled_(options.prefix_caching),
      block_size_(options.block_size),
      pool_(pool),
      cache_(enabled_ ? options.num_blocks : 1, enabled_ ? options.block_size : 1, options.hash_key,
             options.hash_bits) {}

void PrefixSharing::Resize(int num_blocks) {
  if (enabled_) cache_.Resize(num_blocks);
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
    if (block == kNullBlock) return;  // swapped in without the part that had left the window: no longer cached
    bool inserted = false;
    contents.last = cache_.Insert(block, contents.hashes[index], contents.last,
                                  TokensOfBlock(sequence, contents.num_named), inserted);
    if (inserted) pool_.KeepContent(block);
  }
}

int PrefixSharing::Attach(Sequence& sequence, int max_tokens) {
  const int begin = sequence.num_computed;
  if (begin % block_size_ != 0 || begin / block_size_ != static_cast<int>(sequence.blocks.size())) return 0;
  auto& contents = sequence.contents;
  while (sequence.num_computed + block_size_ <= std::min(max_tokens, sequence.num_tokens() - 1)) {
    const int index = sequence.num_computed / block_size_;
    const BlockHash* hash = HashOfBlock(sequence, index);
    if (hash == nullptr || contents.num_named != index) break;
    const auto hit = cache_.Find(*hash, contents.last, TokensOfBlock(sequence, index));
    if (!hit) break;
    pool_.AddReference(hit->block);
    sequence.blocks.push_back(hit->block);
    sequence.num_computed += block_size_;
    contents.last = hit->content;
    ++contents.num_named;
  }
  return sequence.num_computed - begin;
}

int PrefixSharing::HeldBlocks(Sequence& sequence) {
  ContentId content = PrefixCache::RootContent(sequence.contents.root);
  int blocks = 0;
  for (; (blocks + 1) * block_size_ < sequence.num_tokens(); ++blocks) {
    const BlockHash* hash = HashOfBlock(sequence, blocks);
    if (hash == nullptr) break;
    const auto hit = cache_.Find(*hash, content, TokensOfBlock(sequence, blocks));
    if (!hit || pool_.ref_count(hit->block) == 0) break;
    content = hit->content;
  }
  return blocks;
}

std::vector<BlockId> PrefixSharing::Find(std::string_view salt, std::span<const TokenId> tokens) const {
  std::vector<BlockId> found;
  if (!enabled_) return found;
  const auto size = static_cast<size_t>(block_size_);
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

void PrefixSharing::Flush() {
  if (!enabled_) return;
  for (BlockId block = 1; block <= pool_.num_usable(); ++block) {
    cache_.Erase(block);
    pool_.DropContent(block);
  }
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
