#include "coordinator/text/vocabulary_of.h"

namespace quire {

Vocabulary VocabularyOf(const Tokenizer& tokenizer, const std::vector<TokenId>& stop_tokens) {
  Vocabulary vocabulary{{}, stop_tokens};
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    const bool never = tokenizer.IsSpecial(token) || tokenizer.Bytes(token).size() > kMaxTokenBytes;
    vocabulary.bytes.emplace_back(never ? "" : tokenizer.Bytes(token));
  }
  return vocabulary;
}

}  // namespace quire
