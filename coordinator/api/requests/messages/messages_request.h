#pragma once

#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/context_edits.h"
#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// A request of Anthropic's Messages API, translated into the equivalent chat request.
struct MessagesRequest {
  OrderedJson chat;   // the body of /v1/chat/completions
  OrderedJson shown;  // tools that the model sees before the conversation; the conversation's text describes the others
  std::vector<std::string>
      hints;  // names of chat members that are ignored if the template does not read them
  ContextEdits edits;
  bool seals_thoughts = false;  // the client does not want to read thoughts, but may send them back
};

/// Translates a body of /v1/messages into a body of /v1/chat/completions. `system` becomes the first message, blocks
/// become text, tool_use becomes tool_calls, tool_result becomes a message of the role tool, and output_config.format
/// becomes response_format. Members keep their order. Throws ApiError that names a bad or impossible field. Leaves out
/// tools and settings that only the provider's own servers use.
MessagesRequest ChatOfMessages(const OrderedJson& body, const RequestLimits& limits);

/// Parses a body of /v1/messages. generates: false for count_tokens, which needs no max_tokens. Throws ApiError that
/// may name the chat request's field (see InWordsOf).
GenerateCall ParseMessagesRequest(const RequestBody& body, const RequestLimits& limits, bool generates);

}  // namespace quire
