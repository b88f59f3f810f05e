#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/text/bpe.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/splitter.h"
#include "coordinator/text/tokenizer_data.h"

namespace quire {

/// Byte-level BPE: text to tokens and tokens to bytes. Immutable; safe to share between threads.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerData data);

  int vocab_size() const { return static_cast<int>(bytes_.size()); }
  const TokenizerData& data() const { return data_; }

  /// Tokens of valid UTF-8 text. Control tokens are recognised in trusted bytes only; other added tokens everywhere.
  std::vector<TokenId> Encode(const MarkedText& text) const;

  /// The same for a raw prompt: everything is trusted, and the tokenizer's prefix (BOS) goes first when wanted.
  std::vector<TokenId> EncodePrompt(std::string_view text, bool add_special_tokens) const;

  /// The bytes a token stands for; ids outside the vocabulary stand for none.
  std::string_view Bytes(TokenId token) const;
  bool IsSpecial(TokenId token) const {
    return token >= 0 && token < vocab_size() && special_[static_cast<size_t>(token)];
  }

 private:
  struct Match {
    size_t begin, end;
    const AddedToken* token;
  };
  const AddedToken* AddedTokenAt(const MarkedText& text, size_t at) const;
  Match WithStrips(const std::string& text, size_t begin, size_t from, const AddedToken& token) const;
  void EncodeWords(std::string_view text, bool at_start, std::vector<TokenId>& out) const;

  TokenizerData data_;
  Bpe bpe_;
  std::vector<Splitter> splitters_;
  std::vector<std::string> bytes_;                                       // by id
  std::vector<bool> special_;                                            // by id
  std::unordered_map<std::string, TokenId> whole_words_;                 // filled when whole_words_first
  std::array<std::vector<const AddedToken*>, 256> added_by_first_byte_;  // longest first
};

}  // namespace quire
