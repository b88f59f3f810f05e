#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/text/tokenizer/byte_trie.h"

namespace quire {

/// A vocabulary in which each piece has a log-likelihood.
struct UnigramModel {
  struct Piece {
    TokenId token = 0;
    double score = 0;
  };
  std::vector<Piece> pieces;   // pieces to search in texts
  TokenId unknown = 0;         // token for a run of characters without a piece
  double unknown_score = 0;    // log-likelihood of one unknown character
  bool byte_fallback = false;  // writes an unknown run as byte tokens, if all needed ones exist
  /// Rounds sums to single precision after every piece, as SentencePiece does. Rounding can decide between two
  /// segmentations.
  bool single_precision = false;
};

/// Cuts text into the pieces with the highest total likelihood.
class Unigram {
 public:
  /// Makes the vocabulary. `tokens`: the tokens' texts, by id. Throws Error when a piece is no token, too long or not
  /// valid UTF-8, when a score is not finite, or when the token for unknown characters does not exist.
  Unigram(const UnigramModel& model, const std::vector<std::string>& tokens);

  /// Appends the tokens of valid UTF-8 text, in linear time because token lengths are limited. Among equally likely
  /// segmentations, the one with the longer last piece wins. Throws Stopped when `stop` asks for it.
  void Encode(std::string_view text, const std::stop_token& stop, std::vector<TokenId>& out) const;

  /// True when every byte has a token, so that no character is unknown.
  bool knows_all_bytes() const;

 private:
  /// The last piece of the best segmentation that ends at some position.
  struct Last {
    TokenId token = 0;
    uint32_t bytes = 0;  // 0: no segmentation yet
  };
  std::vector<Last> BestWays(std::string_view text, const std::stop_token& stop) const;
  double Sum(double before, double score) const;
  void AddUnknown(std::string_view run, std::vector<TokenId>& out) const;

  ByteTrie trie_;  // values are indices into pieces_
  std::vector<UnigramModel::Piece> pieces_;
  std::vector<TokenId> bytes_;  // tokens of single bytes; -1: none
  TokenId unknown_;
  double unknown_score_;
  bool single_precision_;
};

}  // namespace quire
