#include "coordinator/text/tokenizer/vocabulary_of.h"

#include <algorithm>
#include <string_view>

namespace quire {

Vocabulary VocabularyOf(const Tokenizer& tokenizer, const std::vector<TokenId>& stop_tokens,
                        const std::vector<std::string>& named) {
  Vocabulary vocabulary{{}, stop_tokens};
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string_view bytes = tokenizer.Bytes(token);
    if (bytes.size() >= kMaxTokenBytes) {
      vocabulary.bytes.emplace_back();
    } else if (!tokenizer.IsSpecial(token)) {
      vocabulary.bytes.emplace_back(bytes);
    } else {
      const bool by_id = std::ranges::find(named, bytes) != named.end();
      std::string& unlike_text = vocabulary.bytes.emplace_back();
      if (by_id) unlike_text.append(1, '\xff').append(bytes);
    }
  }
  return vocabulary;
}

}  // namespace quire
