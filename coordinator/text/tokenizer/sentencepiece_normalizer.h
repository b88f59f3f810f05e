#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/tokenizer/charsmap.h"
#include "coordinator/text/tokenizer/normalizer.h"
#include "coordinator/text/tokenizer/text_finder.h"

namespace quire {

/// Normalises a text as SentencePiece does before it searches for pieces.
class SentencePieceNormalizer {
 public:
  /// Compiles the rules. Throws Error when the charsmap is invalid.
  explicit SentencePieceNormalizer(const normalize::SentencePiece& rules);

  /// Normalises valid UTF-8 in linear time. Throws Error when the result exceeds `max_bytes`.
  std::string Apply(std::string_view text, size_t max_bytes) const;

 private:
  std::vector<size_t> UserDefinedLengths(std::string_view text) const;
  /// Returns the text's first unit with its replacement. The unit is a user-defined piece of `user_defined` bytes (0:
  /// none), an entry of the charsmap, or a character.
  Charsmap::Match Next(std::string_view text, size_t user_defined) const;

  normalize::SentencePiece rules_;
  Charsmap charsmap_;
  TextFinder user_defined_;
};

}  // namespace quire
