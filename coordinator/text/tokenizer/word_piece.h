#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/text/tokenizer/byte_trie.h"

namespace quire {

/// A vocabulary with beginnings of words, and with continuations, which begin with a mark.
struct WordPieceModel {
  TokenId unknown = 0;           // token of a word that the vocabulary cannot spell
  std::string mark = "##";       // precedes continuations in the vocabulary
  size_t most_characters = 100;  // a longer word is unknown
};

/// Cuts words into tokens from the left; each token is the longest that matches.
class WordPiece {
 public:
  /// Makes the vocabulary. `tokens`: the tokens' texts, by id. Throws Error when the token for unknown words does not
  /// exist, when a token or the mark is too long, or when the mark is empty.
  WordPiece(const WordPieceModel& model, const std::vector<std::string>& tokens);

  /// Appends the tokens of one word (valid UTF-8), in linear time because lengths of tokens are limited.
  void Encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  ByteTrie beginnings_, continuations_;  // values are token ids
  TokenId unknown_;
  size_t most_characters_;
};

/// Returns the text of a token of a WordPiece vocabulary, with a space before the beginning of a word.
std::string TextOfPiece(const WordPieceModel& model, std::string_view token);

}  // namespace quire
