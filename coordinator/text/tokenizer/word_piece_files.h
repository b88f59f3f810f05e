#pragma once

#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/text/tokenizer/tokenizer_data.h"

namespace quire {

// Functions that read WordPiece tokenizers. `path`: the file's path, for errors.

/// Reads the "model" of a tokenizer.json whose type is WordPiece.
void ReadWordPiece(const Json& model, const std::string& path, TokenizerData& data);

/// Reads the tokenizer of a BERT directory without tokenizer.json: vocab.txt has a token in each line, and `config` is
/// tokenizer_config.json.
void ReadVocabTxt(const std::string& text, const Json& config, const std::string& path, TokenizerData& data);

/// Completes the tokenizer of a BERT whose tokens are known: normalizer, words, and the tokens around texts and pairs.
/// `config` may say, as tokenizer_config.json does, how the normalizer differs from the usual one, which lower-cases
/// text.
void SetBertWords(TokenId unknown, TokenId cls, TokenId sep, const Json& config, const std::string& path,
                  TokenizerData& data);

/// Reads the WordPiece vocabulary of a GGUF file, whose tokens are in `data`. The file marks the tokens that begin a
/// word; this function rewrites them as BERT's own files do, which mark the tokens that continue a word. As in
/// llama.cpp, text is lower-cased.
void ReadWordPieceGguf(const GgufFile& gguf, TokenizerData& data);

/// Reads the "pair" of a TemplateProcessing step. Returns nullopt when there is no such member, when it does not have
/// the first text before the second, or for token types that PairFrame cannot express.
std::optional<PairFrame> ReadPairFrame(const Json& step, const std::string& path);

}  // namespace quire
