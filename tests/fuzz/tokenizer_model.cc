// Input: tokenizer_config.json, a zero byte, a text, a zero byte, and a tokenizer.model.
#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/tokenizer_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  HfTokenizerFiles files;
  files.config_json = bytes.Until('\0');
  const std::string_view text = bytes.Until('\0');
  files.sentencepiece = bytes.Rest();
  fuzz::CheckTokenizer(files, text);
  return 0;
}
