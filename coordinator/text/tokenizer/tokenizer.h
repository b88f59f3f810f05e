#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/text/marked_text.h"
#include "coordinator/text/tokenizer/added_tokens.h"
#include "coordinator/text/tokenizer/bpe.h"
#include "coordinator/text/tokenizer/encode_bounds.h"
#include "coordinator/text/tokenizer/keyed_hash.h"
#include "coordinator/text/tokenizer/normalizer.h"
#include "coordinator/text/tokenizer/pre_tokenizer.h"
#include "coordinator/text/tokenizer/tokenizer_data.h"
#include "coordinator/text/tokenizer/unigram.h"
#include "coordinator/text/tokenizer/word_piece.h"

namespace quire {

/// Converts text to tokens (by merges of bytes or characters, a Unigram model or WordPiece), and tokens to bytes. The
/// class is immutable, so threads can share an object.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerData data);

  int vocab_size() const { return static_cast<int>(bytes_.size()); }
  const TokenizerData& data() const { return data_; }

  /// Returns the tokens of valid UTF-8 text of n bytes in O(n log n) time. A model's own patterns may take longer, and
  /// end with an Error when they take too long (SplitBudget). Control tokens are recognised only in trusted bytes,
  /// other added tokens everywhere. Throws Stopped or TooManyTokens as `bounds` say.
  std::vector<TokenId> Encode(const MarkedText& text, const EncodeBounds& bounds = {}) const;

  /// Does what Encode does, for a raw prompt: all bytes are trusted, and with add_special_tokens the tokenizer's prefix
  /// (BOS) and suffix are added.
  std::vector<TokenId> EncodePrompt(std::string_view text, bool add_special_tokens,
                                    const EncodeBounds& bounds = {}) const;

  struct JoinedPair {  // two texts that a model reads together
    std::vector<TokenId> tokens;
    int second = 0;  // index of the first token of type 1; 0: all tokens have type 0
  };
  /// Joins the tokens of two texts with special tokens between and around them. To stay within `most` tokens, shortens
  /// the longer text first, at its end, like HF's "longest_first". Throws Error when the tokenizer joins no pairs.
  JoinedPair JoinPair(std::vector<TokenId> first, std::vector<TokenId> second, size_t most = SIZE_MAX) const;

  /// True when the bytes of the text prove, without encoding, that it has more than num_tokens tokens.
  bool SurelyExceeds(std::string_view text, size_t num_tokens) const;
  /// True when no pattern of the model's own is used, so that encoding n bytes takes O(n log n) time.
  bool is_linear() const { return normalizer_.is_linear() && pre_tokenizer_.is_linear(); }
  /// Returns the byte length of the longest token.
  size_t longest_token() const { return longest_token_; }

  /// Returns the bytes of a token; empty for ids outside the vocabulary.
  std::string_view Bytes(TokenId token) const;
  bool IsSpecial(TokenId t) const { return t >= 0 && t < vocab_size() && special_[static_cast<size_t>(t)]; }

 private:
  void CheckAround() const;
  void AddVocabulary();
  void AddByteLevelToken(TokenId token);
  void AddTextToken(TokenId token);
  void AddMerges();
  void AddAddedTokens();
  void MeasureTokens();
  /// The state of one call of Encode.
  struct Work {
    const EncodeBounds& bounds;
    SplitBudget& budget;
    size_t room;  // bytes that the remaining parts may become by normalisation
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
  std::optional<Unigram> unigram_;  // if set, it or word_piece_ is used instead of bpe_
  std::optional<WordPiece> word_piece_;
  std::vector<std::string> bytes_;  // indexed by token id
  std::vector<bool> special_;       // indexed by token id
  size_t longest_token_ = 0;        // bytes of the longest token
  bool any_length_ = false;         // texts of any length may have few tokens
  bool words_are_apart_ = false;    // no merge joins text before a mark to the mark
  // Tokens by their text, for pieces that need no merges; empty unless whole_words_first is set.
  std::unordered_map<std::string, TokenId, KeyedHash, std::equal_to<>> whole_words_;
  /// as_written_ tokens are searched in the original text, then in_normalized_ tokens in the other text, normalised.
  AddedTokenFinder as_written_, in_normalized_;
};

}  // namespace quire
