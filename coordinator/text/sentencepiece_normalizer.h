#pragma once

#include <string>
#include <string_view>

#include "coordinator/text/byte_trie.h"
#include "coordinator/text/charsmap.h"
#include "coordinator/text/normalizer.h"

namespace quire {

/// A text as SentencePiece writes it before it looks for pieces.
class SentencePieceNormalizer {
 public:
  /// Throws Error when the charsmap is none.
  explicit SentencePieceNormalizer(const normalize::SentencePiece& rules);

  /// Of valid UTF-8. Throws Error when that has more than `max_bytes`.
  std::string Apply(std::string_view text, size_t max_bytes) const;

 private:
  /// What the beginning of the text becomes: a user-defined piece, an entry of the charsmap, or a character.
  Charsmap::Match Next(std::string_view text) const;

  normalize::SentencePiece rules_;
  Charsmap charsmap_;
  ByteTrie user_defined_;
};

}  // namespace quire
