#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/grammar/vocabulary.h"

namespace quire {

/// False when the continuation byte `next` must not follow the lead byte `lead` in UTF-8, because the character would
/// be an overlong encoding, a surrogate, or a code point beyond Unicode. xgrammar by itself accepts all of these.
bool MayFollow(unsigned char lead, unsigned char next);

/// The bytes of a vocabulary's tokens, without tokens that valid text cannot contain.
struct TokenBytes {
  explicit TokenBytes(const Vocabulary& vocabulary);

  /// Returns the last byte of a text that ends with these tokens; 0 when the text is empty.
  unsigned char LastOf(std::span<const TokenId> tokens) const;

  std::vector<std::string> of;      // the bytes of each token, by id; empty for a token that no text contains
  std::vector<TokenId> continuing;  // tokens that begin inside a UTF-8 character
};

}  // namespace quire
