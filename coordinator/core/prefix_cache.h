#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Names the content of a full block and of everything before it: SipHash-2-4 with 128 bits, chained from a salt.
struct BlockHash {
  uint64_t low = 0, high = 0;
  bool operator==(const BlockHash&) const = default;
};

/// Which tokens, after which other content, a block holds. Two blocks of equal content have the same id.
using ContentId = uint64_t;

/// Finds the block that already holds given tokens after a given prefix. A hit is never taken from the hash alone: the
/// tokens and the content before them are compared, so a collision costs a recomputation and nothing else.
/// Knows no reference counts; BlockManager keeps the blocks alive.
class PrefixCache {
 public:
  using Key = std::array<uint8_t, 16>;

  /// `key` makes the hashes unpredictable. hash_bits below 128 is for tests of collisions.
  PrefixCache(int num_blocks, int block_size, const Key& key, int hash_bits = 128);

  /// Where every chain of a salt begins. Requests of different salts never share a block.
  BlockHash Root(std::string_view salt) const;
  static ContentId RootContent(const BlockHash& root) { return root.high | 1; }

  /// The hash of a block that holds `tokens` (block_size of them) after the content named by `parent`.
  BlockHash Chain(const BlockHash& parent, std::span<const TokenId> tokens) const;

  struct Hit {
    BlockId block;
    ContentId content;
  };
  std::optional<Hit> Find(const BlockHash& hash, ContentId parent, std::span<const TokenId> tokens) const;

  /// The block that is found under the hash if it holds that very content.
  std::optional<BlockId> BlockOf(const BlockHash& hash, ContentId content) const;

  /// Makes the block findable, unless another block holds the same or collides. Returns the content's id; `inserted`
  /// tells whether this block is the one that will be found.
  ContentId Insert(BlockId block, const BlockHash& hash, ContentId parent, std::span<const TokenId> tokens,
                   bool& inserted);
  /// Forgets a block; unknown ones are ignored.
  void Erase(BlockId block);

  /// For another number of blocks. Nothing may be cached. Names of contents are not used again.
  void Resize(int num_blocks);

  int size() const { return size_; }
  /// The hash under which the block is found, if it is.
  std::optional<BlockHash> HashOf(BlockId block) const;

  /// Aborts unless every entry can be found where the table says.
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
  std::span<const TokenId> TokensOf(BlockId block) const;
  size_t HomeOf(const BlockHash& hash) const { return hash.low & (table_.size() - 1); }
  /// The table position of the hash, or of the empty place where it belongs.
  size_t Position(const BlockHash& hash) const;

  int block_size_;
  Key key_;
  uint64_t hash_mask_low_, hash_mask_high_;
  std::vector<Entry> entries_;   // by block id
  std::vector<TokenId> tokens_;  // [num_blocks, block_size]
  std::vector<BlockId> table_;   // open addressing, linear probing; kNullBlock is empty; at most half full
  ContentId next_content_ = 2;   // even; roots are odd
  int size_ = 0;
};

}  // namespace quire
