#pragma once

#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/context_edits.h"
#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// Anthropic's Messages API, as the chat request that says the same.
struct MessagesRequest {
  OrderedJson chat;   // the body of /v1/chat/completions
  OrderedJson shown;  // of the chat's tools those that stand before the conversation, which describes the others
  std::vector<std::string>
      hints;  // members of the chat that are passed over where the model's template reads none such
  ContextEdits edits;
};

/// The body of /v1/messages as one of /v1/chat/completions: `system` becomes the first message, blocks become texts,
/// tool_use and tool_result blocks calls and messages of tools, output_config.format a response_format. Members keep
/// their order. Throws ApiError for what is wrong or cannot be done, by name: nothing is dropped that would change the
/// answer.
MessagesRequest ChatOfMessages(const OrderedJson& body, const RequestLimits& limits);

/// generates: false for count_tokens, which needs no max_tokens. Throws ApiError, with the chat request's names of
/// fields where it found the fault (InWordsOf).
GenerateCall ParseMessagesRequest(const RequestBody& body, const RequestLimits& limits, bool generates);

}  // namespace quire
