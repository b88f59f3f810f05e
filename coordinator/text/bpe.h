#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/types.h"

namespace quire {

/// Byte-pair encoding over bytes: a piece starts as its single bytes and the adjacent pair of the lowest merge rank is
/// joined until no pair has one; the leftmost pair goes first among equals.
class Bpe {
 public:
  /// Token of a single byte; bytes without one are dropped.
  void SetByteToken(unsigned char byte, TokenId token) { byte_tokens_[byte] = token; }
  /// Ranks rise in the order of calls; a pair that is given twice keeps its first rank.
  void AddMerge(TokenId left, TokenId right, TokenId merged);

  /// Appends the tokens of one piece. Time is O(n log n) in its length.
  void Encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    int rank;
    TokenId merged;
  };
  const Merge* Find(TokenId left, TokenId right) const;

  std::vector<TokenId> byte_tokens_ = std::vector<TokenId>(256, -1);
  std::unordered_map<uint64_t, Merge> merges_;  // by (left, right)
};

}  // namespace quire
