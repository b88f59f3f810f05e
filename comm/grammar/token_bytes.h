#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/grammar/vocabulary.h"

namespace quire {

/// Whether the second byte of a UTF-8 character may be `next` after `lead`. xgrammar lets any continuation byte
/// come, and so spellings that are too long, surrogates, and what lies beyond Unicode.
bool MayFollow(unsigned char lead, unsigned char next);

/// A vocabulary's tokens, as far as texts hold them.
struct TokenBytes {
  explicit TokenBytes(const Vocabulary& vocabulary);

  /// The last byte of a text that ends with these tokens; 0: it is empty.
  unsigned char LastOf(std::span<const TokenId> tokens) const;

  std::vector<std::string> of;      // empty for a token that no text holds
  std::vector<TokenId> continuing;  // those that begin inside a character
};

}  // namespace quire
