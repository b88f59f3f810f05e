#pragma once

#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/text/sentencepiece_model.h"
#include "coordinator/text/tokenizer_data.h"

namespace quire {

// Tokens as an HF directory's JSON files name them. `path` is the file's, for errors.

constexpr int64_t kMaxTokens = 1 << 24;

/// The "content" of a token given as text or as an object.
std::string TokenText(const Json& config, const char* key);
TokenId ReadTokenId(const Json& id, const std::string& path);
AddedToken ReadAddedToken(const Json& token, TokenId id, const std::string& path);
/// Throws Error when the id leaves too many before it without a token.
void PutToken(TokenizerData& data, TokenId id, const std::string& text, const std::string& path);

/// The tokenizer of a directory without a tokenizer.json: SentencePiece's model, the tokens that tokenizer_config.json
/// and added_tokens.json (null: there is none) add to it, and what goes around prompts.
void ReadSentencePieceTokenizer(SentencePieceModel model, const Json& config, const Json& added,
                                const std::string& directory, TokenizerData& data);

}  // namespace quire
