#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/grammar/vocabulary.h"

namespace quire {

/// The bytes of a vocabulary's tokens. A token that valid text cannot contain has no bytes here.
struct TokenBytes {
  explicit TokenBytes(const Vocabulary& vocabulary);

  /// Returns the last byte of the text of these tokens; 0 when that text is empty.
  unsigned char LastOf(std::span<const TokenId> tokens) const;

  std::vector<std::string> of;      // the bytes of each token, by id; empty for a token that no text contains
  std::vector<TokenId> continuing;  // tokens that begin inside a UTF-8 character
};

}  // namespace quire
