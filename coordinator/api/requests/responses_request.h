#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/base/json.h"
#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// OpenAI's Responses API, as the chat request that says the same.

/// What a request of /v1/responses says beside that, spelled as JSON for the answer and for what is kept of it.
struct ResponseTerms {
  std::string settings;      // the members of the answer that repeat the request, with commas between them
  std::string conversation;  // a list of chat messages: earlier ones and this request's, without its instructions
  bool store = true;

  int64_t bytes() const { return static_cast<int64_t>(settings.capacity() + conversation.capacity()); }
};

/// The `conversation` of a response that was kept for the same client, with its answer; throws ApiError 404 when there
/// is none.
using FindConversation = std::function<std::string(const std::string& response_id)>;

struct ResponsesRequest {
  OrderedJson chat;  // the body of /v1/chat/completions that says the same
  ResponseTerms terms;
};

/// Throws ApiError for what is wrong or cannot be done, by name: nothing is dropped that would change the answer.
ResponsesRequest ChatOfResponses(const OrderedJson& body, const FindConversation& find);

/// Throws ApiError, with the chat request's names of fields where it found the fault (InWordsOf).
GenerateCall ParseResponsesRequest(const RequestBody& body, const RequestLimits& limits, const FindConversation& find,
                                   ResponseTerms& terms);

}  // namespace quire
