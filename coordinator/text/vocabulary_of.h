#pragma once

#include <string>
#include <vector>

#include "comm/grammar/vocabulary.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// What grammars are made for. No text holds a control token, so no grammar allows one but at its end; and but those
/// that it names by their ids, which may be of these texts: before them stands a byte that no text has.
Vocabulary VocabularyOf(const Tokenizer& tokenizer, const std::vector<TokenId>& stop_tokens,
                        const std::vector<std::string>& named);

}  // namespace quire
