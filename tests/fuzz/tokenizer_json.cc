// tokenizer.json, tokenizer_config.json and a text, apart by zero bytes: what loads, encodes.
#include "comm/base/error.h"
#include "coordinator/text/detokenizer.h"
#include "coordinator/text/utf8.h"
#include "tests/fuzz/byte_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  HfTokenizerFiles files;
  files.tokenizer_json = bytes.Until('\0');
  files.config_json = bytes.Until('\0');
  const std::string_view text = bytes.Rest();
  try {
    const Tokenizer tokenizer(TokenizerDataFromHf(files, "f"));
    if (!IsValidUtf8(text)) return 0;
    const std::vector<TokenId> tokens = tokenizer.EncodePrompt(text, true);
    for (const TokenId token : tokens) {
      QUIRE_CHECK(token >= 0 && token < tokenizer.vocab_size(), "token {} of {}", token, tokenizer.vocab_size());
    }
    QUIRE_CHECK(IsValidUtf8(Decode(tokenizer, tokens, false)), "decoded text is no UTF-8");
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
