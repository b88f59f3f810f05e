#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/api/requests/responses/response_items.h"
#include "coordinator/api/requests/responses/response_tools.h"

namespace quire {

/// Requests of OpenAI's Responses API are translated into equivalent chat requests.

/// The parts of a /v1/responses request that a chat request lacks. The answer and the stored response need them.
struct ResponseTerms {
  std::string settings;      // members of the answer that repeat the request, comma-separated
  std::string conversation;  // chat messages: of earlier responses and of this request, without instructions
  bool store = true;
  bool seals = false;   // thoughts are also sent encoded, so that clients send them back (reasoning.encrypted_content)
  ResponseTools tools;  // how the client knows the tools that the model sees
  std::vector<InputItem> input = {};  // this request's items, for the stored response; none without `store`

  int64_t bytes() const {
    return static_cast<int64_t>(settings.capacity() + conversation.capacity()) + BytesOf(tools) + BytesOf(input);
  }
};

struct ResponsesRequest {
  OrderedJson chat;  // the equivalent body of /v1/chat/completions
  ResponseTerms terms;
};

/// Translates a body of /v1/responses. Throws ApiError that names the invalid or unsupported member. No member that
/// would change the answer is ignored. defaults: the sampling settings that the answer reports if the request has none.
ResponsesRequest ChatOfResponses(const OrderedJson& body, const FindKept& find, const SamplingDefaults& defaults = {});

/// Parses a body of /v1/responses. Throws ApiError that may name the chat request's field (see InWordsOf).
GenerateCall ParseResponsesRequest(const RequestBody& body, const RequestLimits& limits, const FindKept& find,
                                   ResponseTerms& terms);

}  // namespace quire
