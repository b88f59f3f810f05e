#pragma once

#include <string>

namespace quire {

/// `quire bench tokenizer`: one model's tokenizer on one text.
struct TokenizerBench {
  std::string model;      // GGUF file or HF directory
  std::string text_file;  // UTF-8; empty: a page in several languages
  int kilobytes = 1024;   // the text is repeated, or cut, to about so many
  int rounds = 5;
  bool json = false;
};

/// Prints how fast the tokenizer loads, encodes and decodes. Status 1 when decoding does not give the text back.
/// Throws Error when the model or the text is none.
int RunTokenizerBench(const TokenizerBench& bench);

}  // namespace quire
