#pragma once

#include <string>
#include <string_view>

#include "comm/base/error.h"
#include "coordinator/text/tokenizer/detokenizer.h"
#include "coordinator/text/utf8.h"

namespace quire::fuzz {

/// Loads a tokenizer from `files`, if they are valid, and encodes the text, if it is UTF-8. Aborts when a token is
/// outside the vocabulary, when the tokenizer says that the text surely has more tokens than it has, or when the
/// decoded tokens are invalid UTF-8.
inline void CheckTokenizer(const HfTokenizerFiles& files, std::string_view text) {
  try {
    const Tokenizer tokenizer(TokenizerDataFromHf(files, "f"));
    if (!IsValidUtf8(text)) return;
    const std::vector<TokenId> tokens = tokenizer.EncodePrompt(text, true);
    for (const TokenId token : tokens) {
      QUIRE_CHECK(token >= 0 && token < tokenizer.vocab_size(), "token {} of {}", token, tokenizer.vocab_size());
    }
    const size_t encoded = tokenizer.EncodePrompt(text, false).size();
    QUIRE_CHECK(!tokenizer.SurelyExceeds(text, encoded), "{} tokens are said to be impossible", encoded);
    QUIRE_CHECK(IsValidUtf8(Decode(tokenizer, tokens, false)), "decoded text is no UTF-8");
    for (const TokenId token : tokenizer.Encode(MarkedText(text, MarkedText::kFromUser)))
      QUIRE_CHECK(token < tokenizer.vocab_size(), "token {} of {}", token, tokenizer.vocab_size());
  } catch (const Error&) {
    return;
  }
}

}  // namespace quire::fuzz
