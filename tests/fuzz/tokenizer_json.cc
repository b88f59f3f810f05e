// Input: tokenizer.json, tokenizer_config.json and a text, separated by zero bytes.
#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/tokenizer_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  HfTokenizerFiles files;
  files.tokenizer_json = bytes.Until('\0');
  files.config_json = bytes.Until('\0');
  fuzz::CheckTokenizer(files, bytes.Rest());
  return 0;
}
