#pragma once

#include <optional>
#include <stop_token>
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

  /// Appends the tokens of one piece. Time is O(n log n) in its length. Throws Stopped when asked to stop.
  void Encode(std::string_view piece, const std::stop_token& stop, std::vector<TokenId>& out) const;

  bool HasToken(unsigned char byte) const { return byte_tokens_[byte] >= 0; }

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
