#pragma once

#include <cstdint>
#include <stop_token>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/text/tokenizer/keyed_hash.h"

namespace quire {

/// Byte-pair encoding. A piece starts as its characters, or as the bytes of characters that have no token. The adjacent
/// pair with the lowest merge rank is merged, until no pair has a rank. If several pairs have the lowest rank, the
/// leftmost pair is merged first.
class Bpe {
 public:
  /// Sets the token of a single byte. Bytes that have no token are dropped.
  void SetByteToken(unsigned char byte, TokenId token) { byte_tokens_[byte] = token; }
  /// Sets the token of a single character; byte-level vocabularies have none.
  void SetCharacterToken(char32_t character, TokenId token);
  /// Sets the token that replaces characters without a token, in place of the tokens of their bytes. With `fused`, a
  /// run of such characters becomes one token.
  void SetUnknownToken(TokenId token, bool fused) { unknown_ = token, fuses_unknown_ = fused; }
  /// Adds a merge. If a pair is added twice, the first rank counts.
  void AddMerge(TokenId left, TokenId right, TokenId merged, int rank);

  /// Appends the tokens of one piece, which must be valid UTF-8 if characters have tokens. The time is O(n log n) in
  /// its length. Throws Stopped when `stop` asks for it.
  void Encode(std::string_view piece, const std::stop_token& stop, std::vector<TokenId>& out) const;

  bool HasToken(unsigned char byte) const { return byte_tokens_[byte] >= 0; }

 private:
  /// A merge of two tokens. The table uses open addressing and is at most half full.
  struct Merge {
    uint64_t key = kNoKey;  // (left, right)
    int rank = 0;
    TokenId merged = 0;
  };
  static constexpr uint64_t kNoKey = UINT64_MAX;
  size_t PlaceOf(uint64_t key) const;
  const Merge* Find(TokenId left, TokenId right) const;
  TokenId TokenOf(char32_t character) const;
  void AddBytes(std::string_view bytes, std::vector<TokenId>& out) const;
  void AddBeginning(std::string_view piece, std::vector<TokenId>& out) const;
  void MergeFew(size_t begin, std::vector<TokenId>& out) const;
  void MergeMany(size_t begin, const std::stop_token& stop, std::vector<TokenId>& out) const;

  std::vector<TokenId> byte_tokens_ = std::vector<TokenId>(256, -1);
  std::vector<TokenId> common_characters_;  // tokens of U+0000 to U+FFFF; -1: none
  std::unordered_map<char32_t, TokenId> rare_characters_;
  TokenId unknown_ = -1;  // -1: none
  bool fuses_unknown_ = false;
  std::vector<Merge> merges_ = std::vector<Merge>(2);
  size_t num_merges_ = 0;
  uint64_t secret_ = NewSecret();  // so that model files cannot have keys chosen to collide
};

}  // namespace quire
