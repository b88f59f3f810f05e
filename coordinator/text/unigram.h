#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/text/byte_trie.h"

namespace quire {

/// A vocabulary of which every piece has the logarithm of its likelihood.
struct UnigramModel {
  struct Piece {
    TokenId token = 0;
    double score = 0;
  };
  std::vector<Piece> pieces;   // those that are looked for in texts
  TokenId unknown = 0;         // stands for a run of characters that no piece has
  double unknown_score = 0;    // of one such character
  bool byte_fallback = false;  // such a run is written in tokens of its bytes, if there are all that it needs
  /// Sums are rounded to single precision after every piece, as SentencePiece does it: which of two ways to cut a text
  /// is the likelier may depend on that.
  bool single_precision = false;
};

/// Cuts text into those pieces that are together the likeliest.
class Unigram {
 public:
  /// `tokens`: by id. Throws Error when a piece is no token or too long, or a score no number.
  Unigram(const UnigramModel& model, const std::vector<std::string>& tokens);

  /// Appends the tokens of a piece of valid UTF-8, in time that is linear in its length: that of the longest token is
  /// limited. Of ways that are equally likely, the one whose last piece is longer wins. Throws Stopped when asked to
  /// stop.
  void Encode(std::string_view text, const std::stop_token& stop, std::vector<TokenId>& out) const;

  /// No character is unknown, because there are tokens of all bytes.
  bool knows_all_bytes() const;

 private:
  /// The last piece of the best way to write a text up to some place.
  struct Last {
    TokenId token = 0;
    uint32_t bytes = 0;  // 0: there is no way yet
  };
  std::vector<Last> BestWays(std::string_view text, const std::stop_token& stop) const;
  double Sum(double before, double score) const;
  void AddUnknown(std::string_view run, std::vector<TokenId>& out) const;

  ByteTrie trie_;  // of pieces by their place in pieces_
  std::vector<UnigramModel::Piece> pieces_;
  std::vector<TokenId> bytes_;  // tokens of single bytes; -1: none
  TokenId unknown_;
  double unknown_score_;
  bool single_precision_;
};

}  // namespace quire
