#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/text/metaspace.h"

namespace quire {

class ModelFiles;
struct GgufFile;

/// A token that is found in the text before it is cut into words.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false;     // control tokens: left out of decoded text
  bool left_strip = false;  // takes whitespace before it along
  bool right_strip = false;
  bool single_word = false;  // only between non-word characters
  bool normalized = false;   // looked for in the normalised text; control tokens never are
};

/// Two tokens that become one.
struct MergeRule {
  std::string left, right;
  int rank = 0;  // lower goes first
};

/// What a BPE tokenizer is made of, whatever file it came from.
struct TokenizerData {
  std::vector<std::string> tokens;     // by id; added tokens as plain text
  std::optional<Metaspace> metaspace;  // the others are text with marks; nothing: in the byte alphabet
  std::vector<MergeRule> merges;
  std::vector<AddedToken> added;
  std::vector<std::string> split_patterns;  // applied one after another
  bool nfc = false;                         // normalise to NFC first
  bool add_prefix_space = false;            // before the text and after every added token
  bool whole_words_first = false;           // a piece that is a token is taken whole ("ignore_merges")
  std::vector<TokenId> prefix;              // put before an encoded prompt (BOS)
  std::vector<TokenId> suffix;              // put after it (EOS, for models that make embeddings)
  std::string bos_token, eos_token, pad_token;
  std::string chat_template;  // empty: none
};

/// Reads tokenizer.json and tokenizer_config.json of an HF directory. Throws Error when they are missing, broken, or of
/// a kind that is not BPE over bytes, or over characters with bytes for those that have no token.
TokenizerData TokenizerDataFromHf(const std::string& directory);

/// The texts of an HF directory's files; those that a directory lacks are empty.
struct HfTokenizerFiles {
  std::string tokenizer_json;
  std::string config_json;    // tokenizer_config.json
  std::string chat_template;  // chat_template.jinja; goes before the one in config_json
};
/// The same from what the files hold. Errors begin with `directory`.
TokenizerData TokenizerDataFromHf(const HfTokenizerFiles& files, const std::string& directory);

/// Reads the "gpt2" or "llama" tokenizer of a GGUF file. Throws Error for other kinds, and for unknown pre-tokenizers.
TokenizerData TokenizerDataFromGguf(const GgufFile& gguf);

/// The one of the two that a model has.
TokenizerData TokenizerDataOf(const ModelFiles& model);

}  // namespace quire
