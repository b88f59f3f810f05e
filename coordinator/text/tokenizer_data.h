#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/text/metaspace.h"
#include "coordinator/text/normalizer.h"
#include "coordinator/text/pre_tokenizer.h"
#include "coordinator/text/unigram.h"

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
  bool is_normal = false;    // .. as it is, and not as it would be normalised itself
};

/// Two tokens that become one.
struct MergeRule {
  std::string left, right;
  int rank = 0;  // lower goes first
};

/// What a tokenizer is made of, whatever file it came from.
struct TokenizerData {
  std::vector<std::string> tokens;      // by id; added tokens as plain text
  std::optional<Metaspace> metaspace;   // the others are text with marks; nothing: in the byte alphabet
  std::optional<UnigramModel> unigram;  // of tokens that are text; nothing: merges make the tokens
  std::vector<MergeRule> merges;
  /// With merges: what stands for characters that have no token; nothing: there are tokens of all bytes.
  std::optional<TokenId> unknown;
  bool fuses_unknown = true;  // a run of them is one token
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  bool whole_words_first = false;  // a piece that is a token is taken whole ("ignore_merges")
  std::vector<TokenId> prefix;     // put before an encoded prompt (BOS)
  std::vector<TokenId> suffix;     // put after it (EOS, for models that make embeddings)
  std::string bos_token, eos_token, pad_token;
  std::string chat_template;  // empty: none
};

/// Reads the tokenizer of an HF directory: tokenizer.json or, where there is none, tokenizer.model, and
/// tokenizer_config.json. Throws Error when they are missing, broken, or of a kind that is not known.
TokenizerData TokenizerDataFromHf(const std::string& directory);

/// The texts of an HF directory's files; those that a directory lacks are empty.
struct HfTokenizerFiles {
  std::string tokenizer_json;
  std::string config_json;    // tokenizer_config.json
  std::string chat_template;  // chat_template.jinja; goes before the one in config_json
  std::string sentencepiece;  // tokenizer.model; read when there is no tokenizer_json
  std::string added_tokens;   // added_tokens.json, which belongs to it
};
/// The same from what the files hold. Errors begin with `directory`.
TokenizerData TokenizerDataFromHf(const HfTokenizerFiles& files, const std::string& directory);

/// Reads the "gpt2", "llama" or "t5" tokenizer of a GGUF file. Throws Error for other kinds, and for unknown
/// pre-tokenizers.
TokenizerData TokenizerDataFromGguf(const GgufFile& gguf);

/// The one of the two that a model has.
TokenizerData TokenizerDataOf(const ModelFiles& model);

}  // namespace quire
