#pragma once

#include <string_view>
#include <vector>

#include "coordinator/text/marked_text.h"
#include "coordinator/text/token_trie.h"

namespace quire {

/// A part of a text: an added token, with what it strips, or what lies between two.
struct TextPart {
  std::string_view text;
  const AddedToken* token;  // null: none
};

/// Cuts a text where it holds tokens; control tokens only where `marks` trusts (null: everywhere). The text is valid
/// UTF-8 where tokens strip or are single words.
std::vector<TextPart> CutAtTokens(std::string_view text, const TokenTrie& tokens, const MarkedText* marks);

}  // namespace quire
