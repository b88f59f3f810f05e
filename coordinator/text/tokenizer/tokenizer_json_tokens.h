#pragma once

#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/text/tokenizer/sentencepiece_model.h"
#include "coordinator/text/tokenizer/tokenizer_data.h"

namespace quire {

// Functions that read tokens from the JSON files of an HF directory. `path`: the file's path, for errors.

constexpr int64_t kMaxTokens = 1 << 24;

/// Returns the text of a token that is given as text, or as an object with "content"; empty when it is missing.
std::string TokenText(const Json& config, const char* key);
TokenId ReadTokenId(const Json& id, const std::string& path);
AddedToken ReadAddedToken(const Json& token, TokenId id, const std::string& path);
/// Sets the token with this id. Throws Error when too many ids before it would have no token.
void PutToken(TokenizerData& data, TokenId id, const std::string& text, const std::string& path);

/// Reads the tokenizer of a directory without tokenizer.json: the SentencePiece model, the tokens that
/// tokenizer_config.json and added_tokens.json (null: missing) add, and the tokens around prompts.
void ReadSentencePieceTokenizer(SentencePieceModel model, const Json& config, const Json& added,
                                const std::string& directory, TokenizerData& data);

}  // namespace quire
