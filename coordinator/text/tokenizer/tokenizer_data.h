#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/text/tokenizer/metaspace.h"
#include "coordinator/text/tokenizer/normalizer.h"
#include "coordinator/text/tokenizer/pre_tokenizer.h"
#include "coordinator/text/tokenizer/unigram.h"
#include "coordinator/text/tokenizer/word_piece.h"

namespace quire {

class ModelFiles;
struct GgufFile;

/// A token that is searched in a text before the text is cut into words.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false;     // control token: left out of decoded text
  bool left_strip = false;  // the token includes the whitespace before it
  /// The token includes the whitespace after it.
  bool right_strip = false;
  bool single_word = false;  // the token is found only between non-word characters
  bool normalized = false;   // the token is searched in the normalised text; ignored for control tokens
  bool is_normal = false;    // the token's own text is not normalised before the search
};

/// A merge of two tokens.
struct MergeRule {
  std::string left, right;
  int rank = 0;  // the lower rank goes first
};

/// The tokens before, between and after two texts that a model reads together.
struct PairFrame {
  std::vector<TokenId> before, between, after;
  bool second_type = false;  // true: tokens from the second text on have type 1; false: all have type 0
};

/// The description of a tokenizer, independent of its file format.
struct TokenizerData {
  std::vector<std::string> tokens;           // indexed by id; added tokens as plain text
  std::optional<Metaspace> metaspace;        // if set, tokens are text with marks; else in the byte alphabet
  std::optional<UnigramModel> unigram;       // if set, tokens are chosen by likelihood; else by merges
  std::optional<WordPieceModel> word_piece;  // if set, words are cut into the longest tokens
  std::vector<MergeRule> merges;
  /// The token of characters that have no token, in vocabularies with merges; nullopt: every byte has a token.
  std::optional<TokenId> unknown;
  bool fuses_unknown = true;  // a run of unknown characters is one token
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  bool whole_words_first = false;  // a piece that is a token is not merged from parts ("ignore_merges")
  std::vector<TokenId> prefix;     // put before an encoded prompt (BOS)
  std::vector<TokenId> suffix;     // put after an encoded prompt (EOS, in embedding models)
  std::optional<PairFrame> pair;   // put around two texts; nullopt: the tokenizer joins no pairs
  std::string bos_token, eos_token, pad_token;
  std::string chat_template;  // empty: none
};

/// Reads the tokenizer of an HF directory: from tokenizer.json, or else tokenizer.model or vocab.txt, together with
/// tokenizer_config.json. Throws Error when these files are missing, broken or of an unknown kind.
TokenizerData TokenizerDataFromHf(const std::string& directory);

/// The contents of an HF directory's tokenizer files; missing files are empty.
struct HfTokenizerFiles {
  std::string tokenizer_json;
  std::string config_json;    // tokenizer_config.json
  std::string chat_template;  // chat_template.jinja; preferred to the template in config_json
  std::string sentencepiece;  // tokenizer.model; used without tokenizer_json
  std::string added_tokens;   // added_tokens.json, used with tokenizer.model
  std::string vocab_txt;      // vocab.txt of BERT; used if tokenizer.json and tokenizer.model are missing
};
/// Reads a tokenizer from its files' contents. Errors begin with `directory`.
TokenizerData TokenizerDataFromHf(const HfTokenizerFiles& files, const std::string& directory);

/// Reads the "gpt2", "llama", "gemma4", "t5" or "bert" tokenizer of a GGUF file. Throws Error for other kinds and for
/// unknown pre-tokenizers.
TokenizerData TokenizerDataFromGguf(const GgufFile& gguf);

/// Joins two chat templates into one: `with_tools` applies to conversations with tools or calls, `plain` to others, as
/// HF transformers choose among a model's named templates. An empty template is left out.
std::string JoinedTemplates(const std::string& plain, const std::string& with_tools);

/// Reads the tokenizer of a model, from its GGUF file or its HF directory.
TokenizerData TokenizerDataOf(const ModelFiles& model);

}  // namespace quire
