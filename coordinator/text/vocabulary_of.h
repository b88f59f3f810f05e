#pragma once

#include "comm/grammar/vocabulary.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// What grammars are made for. No text holds a control token, so no grammar allows one but at its end.
Vocabulary VocabularyOf(const Tokenizer& tokenizer, const std::vector<TokenId>& stop_tokens);

}  // namespace quire
