#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Identifies the content of a full block together with all blocks before it: 128-bit SipHash-2-4, chained from a salt.
struct BlockHash {
  uint64_t low = 0, high = 0;
  bool operator==(const BlockHash&) const = default;
};

/// Identifies a block's tokens together with all tokens before them. Blocks with equal ids have equal content. Content
/// that has left the cache gets another id when it is cached again.
using ContentId = uint64_t;

/// Finds the block that already holds given tokens after a given prefix. The cache compares tokens and preceding
/// content besides hashes, so a hash collision costs only a recomputation. The cache counts no references; BlockManager
/// keeps the blocks alive.
class PrefixCache {
 public:
  using Key = std::array<uint8_t, 16>;

  /// num_blocks includes the null block. A secret `key` makes the hashes unpredictable. Tests of collisions set
  /// hash_bits below 128.
  PrefixCache(int num_blocks, int block_size, const Key& key, int hash_bits = 128);

  /// Returns the start of all hash chains with this salt and this adapter (0: none). Requests with different salts or
  /// adapters never share a block.
  BlockHash Root(std::string_view salt, int adapter = 0) const;
  static ContentId RootContent(const BlockHash& root) { return root.high | 1; }

  /// Returns the hash of a block that holds `tokens` (block_size of them) after the content named by `parent`.
  BlockHash Chain(const BlockHash& parent, std::span<const TokenId> tokens) const;

  struct Hit {
    BlockId block;
    ContentId content;
  };
  std::optional<Hit> Find(const BlockHash& hash, ContentId parent, std::span<const TokenId> tokens) const;

  /// Returns the block found under the hash; nothing unless the block holds exactly this content.
  std::optional<BlockId> BlockOf(const BlockHash& hash, ContentId content) const;

  /// Makes the full block findable by its hash, unless another block holds the same content or has the same hash.
  /// Returns the content's id, and sets `inserted` to whether lookups now find this block.
  ContentId Insert(BlockId block, const BlockHash& hash, ContentId parent, std::span<const TokenId> tokens,
                   bool& inserted);
  /// Removes a block; ignores blocks that are not cached.
  void Erase(BlockId block);

  /// Changes the number of blocks. No block may be cached. Content ids are never reused.
  void Resize(int num_blocks);

  int size() const { return size_; }
  /// Returns the hash under which the block is cached; nothing when the block is not cached.
  std::optional<BlockHash> HashOf(BlockId block) const;
  /// Returns the tokens of a cached block.
  std::span<const TokenId> TokensOf(BlockId block) const;

  /// Aborts unless a lookup finds every cached block.
  void CheckIntegrity() const;

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(entries_, tokens_, table_, next_content_, size_, key_);
  }

 private:
  struct Entry {
    BlockHash hash;
    ContentId parent = 0, content = 0;
    bool used = false;
  };
  size_t HomeOf(const BlockHash& hash) const { return hash.low & (table_.size() - 1); }
  /// Returns the table position of the hash, or of the empty position where the hash belongs.
  size_t Position(const BlockHash& hash) const;

  int block_size_;
  Key key_;
  uint64_t hash_mask_low_, hash_mask_high_;
  std::vector<Entry> entries_;   // indexed by block id
  std::vector<TokenId> tokens_;  // [num_blocks, block_size]
  std::vector<BlockId> table_;   // open addressing, linear probing; kNullBlock marks an empty entry; at most half full
  ContentId next_content_ = 2;   // always even; ids of roots are odd
  int size_ = 0;
};

}  // namespace quire
