#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/text/bpe.h"
#include "coordinator/text/encode_bounds.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/splitter.h"
#include "coordinator/text/token_trie.h"
#include "coordinator/text/tokenizer_data.h"

namespace quire {

/// BPE over bytes or over characters: text to tokens and tokens to bytes. Immutable; safe to share between threads.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerData data);

  int vocab_size() const { return static_cast<int>(bytes_.size()); }
  const TokenizerData& data() const { return data_; }

  /// Tokens of valid UTF-8 text, in time that is linear in its length, but for patterns that a model brings; those end
  /// with an Error when they take too long (SplitBudget). Control tokens are recognised in trusted bytes only; other
  /// added tokens everywhere. Throws Stopped or TooManyTokens when the bounds end it.
  std::vector<TokenId> Encode(const MarkedText& text, const EncodeBounds& bounds = {}) const;

  /// The same for a raw prompt: everything is trusted, and the tokenizer's prefix (BOS) goes first when wanted.
  std::vector<TokenId> EncodePrompt(std::string_view text, bool add_special_tokens,
                                    const EncodeBounds& bounds = {}) const;

  /// True when it takes no tokenising to see that the text has more tokens than that: it is too long for them, whatever
  /// it says. Looks at every byte once.
  bool SurelyExceeds(std::string_view text, size_t num_tokens) const;
  /// True when a text's length bounds the time that it takes: no pattern of the model's own cuts it.
  bool is_linear() const {
    return std::ranges::all_of(splitters_, [](const Splitter& splitter) { return splitter.is_linear(); });
  }
  /// Bytes of the token that stands for the most.
  size_t longest_token() const { return longest_token_; }

  /// The bytes a token stands for; ids outside the vocabulary stand for none.
  std::string_view Bytes(TokenId token) const;
  bool IsSpecial(TokenId token) const {
    return token >= 0 && token < vocab_size() && special_[static_cast<size_t>(token)];
  }

 private:
  struct Piece {
    std::string_view text;
    const AddedToken* token;  // null: none
  };
  /// The text in pieces: tokens, with what they strip, and what lies between. Control tokens only where `marks` trusts.
  static std::vector<Piece> Cut(std::string_view text, const TokenTrie& tokens, const MarkedText* marks);
  void AddVocabulary();
  void AddByteLevelToken(TokenId token);
  void AddTextToken(TokenId token);
  void AddMerges();
  void AddAddedTokens();
  void AddSplitters();
  void MeasureTokens();
  /// What one call of Encode carries along.
  struct Work {
    const EncodeBounds& bounds;
    SplitBudget& budget;
    std::vector<TokenId>& out;
  };
  /// The text as merges see it, itself or in `storage`. is_first: the whole text begins with it.
  std::string_view Normalize(std::string_view text, bool is_first, std::string& storage) const;
  void EncodeBetween(std::string_view text, bool is_first, Work& work) const;
  void EncodeWords(std::string_view text, bool is_first, Work& work) const;
  void EncodePieces(const std::vector<std::string_view>& pieces, Work& work) const;

  TokenizerData data_;
  Bpe bpe_;
  std::vector<Splitter> splitters_;
  std::vector<std::string> bytes_;                        // by id
  std::vector<bool> special_;                             // by id
  size_t longest_token_ = 0;                              // bytes
  bool any_length_ = false;                               // some text of any length has few tokens
  bool merges_cross_words_ = false;                       // with a metaspace: some merge has a mark in its middle
  std::unordered_map<std::string, TokenId> whole_words_;  // filled when whole_words_first
  /// First one kind is looked for in the text, then the other in what is left of it, normalised.
  TokenTrie as_written_, in_normalized_;
};

}  // namespace quire
