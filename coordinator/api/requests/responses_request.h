#pragma once

#include <cstdint>
#include <string>

#include "comm/base/json.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/api/requests/response_items.h"
#include "coordinator/api/requests/response_tools.h"

namespace quire {

/// OpenAI's Responses API, as the chat request that says the same.

/// What a request of /v1/responses says beside that, spelled as JSON for the answer and for what is kept of it.
struct ResponseTerms {
  std::string settings;      // the members of the answer that repeat the request, with commas between them
  std::string conversation;  // a list of chat messages: earlier ones and this request's, without its instructions
  bool store = true;
  bool seals = false;   // thoughts are also given in a form that comes back (reasoning.encrypted_content)
  ResponseTools tools;  // what the client calls the tools that the model is shown

  int64_t bytes() const { return static_cast<int64_t>(settings.capacity() + conversation.capacity()) + BytesOf(tools); }
};

struct ResponsesRequest {
  OrderedJson chat;  // the body of /v1/chat/completions that says the same
  ResponseTerms terms;
};

/// Throws ApiError for what is wrong or cannot be done, by name: nothing is dropped that would change the answer.
/// defaults: what the answer says of sampling where the request says nothing.
ResponsesRequest ChatOfResponses(const OrderedJson& body, const FindKept& find, const SamplingDefaults& defaults = {});

/// Throws ApiError, with the chat request's names of fields where it found the fault (InWordsOf).
GenerateCall ParseResponsesRequest(const RequestBody& body, const RequestLimits& limits, const FindKept& find,
                                   ResponseTerms& terms);

}  // namespace quire
