#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/grammar/vocabulary.h"

namespace quire {

/// The bytes of a vocabulary's tokens, without tokens that valid text cannot contain.
struct TokenBytes {
  explicit TokenBytes(const Vocabulary& vocabulary);

  /// Returns the last byte of a text that ends with these tokens; 0 when the text is empty.
  unsigned char LastOf(std::span<const TokenId> tokens) const;

  std::vector<std::string> of;      // the bytes of each token, by id; empty for a token that no text contains
  std::vector<TokenId> continuing;  // tokens that begin inside a UTF-8 character
};

}  // namespace quire
