#include "coordinator/core/blocks/prefix_cache.h"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "comm/base/error.h"
#include "coordinator/core/blocks/prefix_origin.h"

namespace quire {

PrefixCache::PrefixCache(int num_blocks, int block_size, const Key& key, int hash_bits)
    : block_size_(block_size),
      key_(key),
      hash_mask_low_(hash_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << hash_bits) - 1),
      hash_mask_high_(hash_bits >= 128  ? ~uint64_t{0}
                      : hash_bits <= 64 ? 0
                                        : (uint64_t{1} << (hash_bits - 64)) - 1),
      entries_(static_cast<size_t>(num_blocks)),
      tokens_(static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size)),
      table_(std::bit_ceil(static_cast<size_t>(num_blocks) * 2), kNullBlock) {}

void PrefixCache::Resize(int num_blocks) {
  QUIRE_CHECK(size_ == 0, "{} blocks are cached", size_);
  entries_.assign(static_cast<size_t>(num_blocks), {});
  tokens_.assign(entries_.size() * static_cast<size_t>(block_size_), 0);
  table_.assign(std::bit_ceil(entries_.size() * 2), kNullBlock);
}

BlockHash PrefixCache::Root(std::string_view salt, int adapter) const { return RootOf(OriginOf(salt, adapter), key_); }

BlockHash PrefixCache::Chain(const BlockHash& parent, std::span<const TokenId> tokens) const {
  constexpr size_t kMaxBlock = 256;  // tokens; --block-size allows no more, so only benchmarks take the slow path
  std::array<unsigned char, sizeof(BlockHash) + kMaxBlock * sizeof(TokenId)> small;
  std::vector<unsigned char> large;
  const size_t bytes = sizeof(BlockHash) + tokens.size_bytes();
  unsigned char* data = small.data();
  if (bytes > small.size()) {
    large.resize(bytes);
    data = large.data();
  }
  std::memcpy(data, &parent, sizeof(parent));
  std::memcpy(data + sizeof(parent), tokens.data(), tokens.size_bytes());
  unsigned char out[crypto_shorthash_siphashx24_BYTES];
  crypto_shorthash_siphashx24(out, data, bytes, key_.data());
  BlockHash hash;
  std::memcpy(&hash, out, sizeof(hash));
  return {hash.low & hash_mask_low_, hash.high & hash_mask_high_};
}

std::span<const TokenId> PrefixCache::TokensOf(BlockId block) const {
  const auto size = static_cast<size_t>(block_size_);
  return std::span(tokens_).subspan(static_cast<size_t>(block) * size, size);
}

size_t PrefixCache::Position(const BlockHash& hash) const {
  size_t position = HomeOf(hash);
  while (table_[position] != kNullBlock && entries_[static_cast<size_t>(table_[position])].hash != hash) {
    position = (position + 1) & (table_.size() - 1);
  }
  return position;
}

std::optional<PrefixCache::Hit> PrefixCache::Find(const BlockHash& hash, ContentId parent,
                                                  std::span<const TokenId> tokens) const {
  const BlockId block = table_[Position(hash)];
  if (block == kNullBlock) return std::nullopt;
  const Entry& entry = entries_[static_cast<size_t>(block)];
  if (entry.parent != parent || !std::ranges::equal(TokensOf(block), tokens)) return std::nullopt;
  return Hit{block, entry.content};
}

std::optional<BlockId> PrefixCache::BlockOf(const BlockHash& hash, ContentId content) const {
  const BlockId block = table_[Position(hash)];
  if (block == kNullBlock || entries_[static_cast<size_t>(block)].content != content) return std::nullopt;
  return block;
}

ContentId PrefixCache::Insert(BlockId block, const BlockHash& hash, ContentId parent, std::span<const TokenId> tokens,
                              bool& inserted) {
  inserted = false;
  const size_t position = Position(hash);
  if (table_[position] != kNullBlock) {
    const auto hit = Find(hash, parent, tokens);
    if (hit) return hit->content;
    return next_content_ += 2;  // a hash collision: the content gets an id, but lookups cannot find it
  }
  Entry& entry = entries_[static_cast<size_t>(block)];
  QUIRE_CHECK(!entry.used, "block {} is cached twice", block);
  entry = {hash, parent, next_content_ += 2, true};
  std::ranges::copy(tokens, tokens_.begin() + static_cast<ptrdiff_t>(block) * block_size_);
  table_[position] = block;
  ++size_;
  inserted = true;
  return entry.content;
}

void PrefixCache::Erase(BlockId block) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  if (!entry.used) return;
  const size_t mask = table_.size() - 1;
  size_t hole = Position(entry.hash);
  // An entry after the hole moves into the hole, unless the hole is before the entry's home position.
  for (size_t at = (hole + 1) & mask; table_[at] != kNullBlock; at = (at + 1) & mask) {
    const size_t home = HomeOf(entries_[static_cast<size_t>(table_[at])].hash);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    table_[hole] = table_[at];
    hole = at;
  }
  table_[hole] = kNullBlock;
  entry = Entry();
  --size_;
}

std::optional<BlockHash> PrefixCache::HashOf(BlockId block) const {
  const Entry& entry = entries_[static_cast<size_t>(block)];
  if (!entry.used) return std::nullopt;
  return entry.hash;
}

void PrefixCache::CheckIntegrity() const {
  int used = 0;
  for (size_t block = 1; block < entries_.size(); ++block) {
    if (!entries_[block].used) continue;
    ++used;
    QUIRE_CHECK(table_[Position(entries_[block].hash)] == static_cast<BlockId>(block), "block {} cannot be found",
                block);
  }
  QUIRE_CHECK(used == size_, "{} blocks in the prefix cache, {} counted", used, size_);
}

}  // namespace quire
