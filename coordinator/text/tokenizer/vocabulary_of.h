#pragma once

#include <string>
#include <vector>

#include "comm/grammar/vocabulary.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// Returns the vocabulary for grammars. Control tokens are empty, so that grammars can use them only to end the text.
/// Tokens of kMaxTokenBytes bytes or more are empty, too. Control tokens in `named` can be used by id: their text
/// follows a byte that occurs in no text (0xFF).
Vocabulary VocabularyOf(const Tokenizer& tokenizer, const std::vector<TokenId>& stop_tokens,
                        const std::vector<std::string>& named);

}  // namespace quire
