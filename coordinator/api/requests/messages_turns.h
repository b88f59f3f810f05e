#pragma once

#include <optional>
#include <string>

#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/messages_tools.h"

namespace quire {

/// The conversation of a request of the Messages API, as messages of a chat.
struct MessagesTurns {
  OrderedJson messages;               // a list
  bool begins_answer = false;         // the last message is the beginning of the answer
  bool after_tools = false;           // the last turn brings results of tools
  std::optional<std::string> effort;  // what the latest turn of the system that speaks of it asks for
};

/// Reads `system` and `messages`. Throws ApiError for what is wrong or cannot be shown to a model of texts.
MessagesTurns ReadMessagesTurns(const JsonObject& body, MessagesTools& tools);

}  // namespace quire
