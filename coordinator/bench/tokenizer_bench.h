#pragma once

#include <string>

namespace quire {

/// Settings of `quire bench tokenizer`, which measures a model's tokenizer on a text.
struct TokenizerBench {
  std::string model;      // GGUF file or HF directory
  std::string text_file;  // path of a UTF-8 text; empty: a built-in page in several languages
  int kilobytes = 1024;   // the text is repeated or cut to about this size
  int rounds = 5;
  bool json = false;
};

/// Prints how fast the tokenizer loads, encodes and decodes. Returns 1 when decoding does not restore the text. Throws
/// Error when the model or the text cannot be read.
int RunTokenizerBench(const TokenizerBench& bench);

}  // namespace quire
