#pragma once

#include <string>

#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/messages/messages_tools.h"

namespace quire {

// The functions below turn blocks of the Messages API into text. All throw an ApiError that names the invalid member,
// or the content that a text model cannot read.

/// The text of a block of text, a document, a search result or a tool reference. A tool reference also loads the tool.
std::string WordsOfBlock(const JsonObject& block, MessagesTools& tools);

/// The text of a member that is a string or a list of such blocks; empty when the member is absent.
std::string WordsOf(const JsonObject& holder, const char* name, MessagesTools& tools);

/// The text of a result of a provider's tool in an earlier answer.
std::string WordsOfProviderResult(const JsonObject& block, MessagesTools& tools);

/// The text of `system`, without Claude Code's billing line, which differs between its conversations.
std::string WordsOfSystem(const JsonObject& body, MessagesTools& tools);

}  // namespace quire
