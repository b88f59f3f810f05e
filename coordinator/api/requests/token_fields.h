#pragma once

#include <vector>

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// The ids of a list. Throws ApiError for too many, and for what is no token.
std::vector<TokenId> ReadTokenIds(const Json& list, const char* name, size_t max_count, int vocab_size);

/// Which tokens are favoured, end the text, or are drawn at all: logit_bias, stop_token_ids, allowed_token_ids and
/// bad_words, whose tokens are found later.
void ReadTokenFields(const JsonFields& fields, const RequestLimits& limits, GenerateCall& call);

/// Throws ApiError when no token may ever be drawn: `ends` may not be before min_tokens.
void CheckSomeTokenIsLeft(const SamplingSpec& sampling, const std::vector<TokenId>& ends);

}  // namespace quire
