#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/text/added_tokens.h"
#include "coordinator/text/bpe.h"
#include "coordinator/text/encode_bounds.h"
#include "coordinator/text/keyed_hash.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/normalizer.h"
#include "coordinator/text/pre_tokenizer.h"
#include "coordinator/text/tokenizer_data.h"
#include "coordinator/text/unigram.h"

namespace quire {

/// Text to tokens, by merges over bytes or over characters or by the likelihood of pieces, and tokens to bytes.
/// Immutable; safe to share between threads.
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
  bool is_linear() const { return normalizer_.is_linear() && pre_tokenizer_.is_linear(); }
  /// Bytes of the token that stands for the most.
  size_t longest_token() const { return longest_token_; }

  /// The bytes a token stands for; ids outside the vocabulary stand for none.
  std::string_view Bytes(TokenId token) const;
  bool IsSpecial(TokenId token) const {
    return token >= 0 && token < vocab_size() && special_[static_cast<size_t>(token)];
  }

 private:
  void AddVocabulary();
  void AddByteLevelToken(TokenId token);
  void AddTextToken(TokenId token);
  void AddMerges();
  void AddAddedTokens();
  void MeasureTokens();
  /// What one call of Encode carries along.
  struct Work {
    const EncodeBounds& bounds;
    SplitBudget& budget;
    size_t room;  // bytes that the parts of the text may still become when they are normalised
    std::vector<TokenId>& out;

    void Put(TokenId token);
  };
  void EncodeBetween(std::string_view text, bool is_first, Work& work) const;
  void EncodeWords(std::string_view text, bool is_first, Work& work) const;
  void EncodePiece(std::string_view piece, Work& work) const;

  TokenizerData data_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  std::optional<Unigram> unigram_;  // goes before bpe_
  std::vector<std::string> bytes_;  // by id
  std::vector<bool> special_;       // by id
  size_t longest_token_ = 0;        // bytes
  bool any_length_ = false;         // some text of any length has few tokens
  bool words_are_apart_ = false;    // no merge joins what stands before a mark to it
  // Filled when whole_words_first.
  std::unordered_map<std::string, TokenId, KeyedHash, std::equal_to<>> whole_words_;
  /// First one kind is looked for in the text, then the other in what is left of it, normalised.
  AddedTokenFinder as_written_, in_normalized_;
};

}  // namespace quire
