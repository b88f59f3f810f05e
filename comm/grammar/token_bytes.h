#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/grammar/vocabulary.h"

namespace quire {

/// The bytes of a vocabulary's tokens. Tokens with a byte sequence that UTF-8 forbids have no bytes here. Control
/// tokens keep the bytes that Vocabulary gives them.
struct TokenBytes {
  explicit TokenBytes(const Vocabulary& vocabulary);

  /// Returns the last byte of the text of these tokens; 0 when that text is empty.
  unsigned char LastOf(std::span<const TokenId> tokens) const;

  std::vector<std::string> of;      // the bytes of each token, by id; empty where UTF-8 forbids them
  std::vector<TokenId> continuing;  // tokens that begin inside a UTF-8 character
};

}  // namespace quire
