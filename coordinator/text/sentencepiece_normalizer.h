#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/charsmap.h"
#include "coordinator/text/normalizer.h"
#include "coordinator/text/text_finder.h"

namespace quire {

/// A text as SentencePiece writes it before it looks for pieces.
class SentencePieceNormalizer {
 public:
  /// Throws Error when the charsmap is none.
  explicit SentencePieceNormalizer(const normalize::SentencePiece& rules);

  /// Of valid UTF-8, in time that is linear in it. Throws Error when that has more than `max_bytes`.
  std::string Apply(std::string_view text, size_t max_bytes) const;

 private:
  std::vector<size_t> UserDefinedLengths(std::string_view text) const;
  /// What the beginning of the text becomes: a user-defined piece of so many bytes (0: none begins there), an entry of
  /// the charsmap, or a character.
  Charsmap::Match Next(std::string_view text, size_t user_defined) const;

  normalize::SentencePiece rules_;
  Charsmap charsmap_;
  TextFinder user_defined_;
};

}  // namespace quire
