#pragma once

#include <optional>
#include <string>

#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/messages/messages_tools.h"

namespace quire {

/// The conversation of a Messages request, as chat messages.
struct MessagesTurns {
  OrderedJson messages;               // a list
  bool begins_answer = false;         // the last message is the start of the answer
  bool after_tools = false;           // the last turn has results of tools
  std::optional<std::string> effort;  // effort of the latest system turn that sets one
};

/// Reads `system` and `messages`. Throws ApiError for bad values and for content that cannot be shown to a text model.
MessagesTurns ReadMessagesTurns(const JsonObject& body, MessagesTools& tools);

}  // namespace quire
