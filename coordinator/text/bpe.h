#pragma once

#include <optional>
#include <stop_token>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Byte-pair encoding: a piece starts as its single characters, or bytes for characters that have no token, and the
/// adjacent pair of the lowest merge rank is joined until no pair has one; the leftmost pair goes first among equals.
class Bpe {
 public:
  /// Token of a single byte; bytes without one are dropped.
  void SetByteToken(unsigned char byte, TokenId token) { byte_tokens_[byte] = token; }
  /// Token of a single character; byte-level vocabularies have none.
  void SetCharacterToken(char32_t character, TokenId token) { character_tokens_[character] = token; }
  /// Stands for characters that have no token, instead of their bytes; fused: for a run of them.
  void SetUnknownToken(TokenId token, bool fused) { unknown_ = token, fuses_unknown_ = fused; }
  /// A pair that is given twice keeps its first rank.
  void AddMerge(TokenId left, TokenId right, TokenId merged, int rank);

  /// Appends the tokens of one piece, which is valid UTF-8 where characters have tokens. Time is O(n log n) in its
  /// length. Throws Stopped when asked to stop.
  void Encode(std::string_view piece, const std::stop_token& stop, std::vector<TokenId>& out) const;

  bool HasToken(unsigned char byte) const { return byte_tokens_[byte] >= 0; }

 private:
  struct Merge {
    int rank;
    TokenId merged;
  };
  const Merge* Find(TokenId left, TokenId right) const;
  void AddBytes(std::string_view bytes, std::vector<TokenId>& out) const;
  std::vector<TokenId> Beginning(std::string_view piece) const;

  std::vector<TokenId> byte_tokens_ = std::vector<TokenId>(256, -1);
  std::unordered_map<char32_t, TokenId> character_tokens_;
  TokenId unknown_ = -1;  // there is none
  bool fuses_unknown_ = false;
  std::unordered_map<uint64_t, Merge> merges_;  // by (left, right)
};

}  // namespace quire
