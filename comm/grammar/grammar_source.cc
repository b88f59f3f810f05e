#include "comm/grammar/grammar_source.h"

#include <sodium.h>

namespace quire {

GrammarDigest DigestOf(const GrammarSource& source) {
  const std::string text = static_cast<char>('0' + source.kind) + source.text;
  GrammarDigest digest;
  ::crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                       nullptr, 0);
  return digest;
}

}  // namespace quire
