#pragma once

#include <vector>

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// Reads a list of token ids. Throws ApiError for more than max_count ids, and for a value that is not a token of the
/// model.
std::vector<TokenId> ReadTokenIds(const Json& list, const char* name, size_t max_count, int vocab_size);

/// Reads logit_bias, stop_token_ids, allowed_token_ids and bad_words. Bad words are tokenised later.
void ReadTokenFields(const JsonFields& fields, const RequestLimits& limits, GenerateCall& call);

/// Throws ApiError when allowed_token_ids leaves no token that can be sampled. The tokens `ends` cannot be sampled
/// before the answer has min_tokens tokens. Tokens of bad words can never be sampled.
void CheckSomeTokenIsLeft(const SamplingSpec& sampling, const std::vector<TokenId>& ends);

}  // namespace quire
