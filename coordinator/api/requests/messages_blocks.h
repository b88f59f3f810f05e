#pragma once

#include <string>

#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/messages_tools.h"

namespace quire {

// Blocks of the Messages API as words. All throw ApiError that names what is wrong or cannot be shown to a model of
// texts.

/// The words of a block of text, a document, a search result or a reference to a tool, which is loaded.
std::string WordsOfBlock(const JsonObject& block, MessagesTools& tools);

/// A string, or a list of such blocks; nothing where there is neither.
std::string WordsOf(const JsonObject& holder, const char* name, MessagesTools& tools);

/// The words of a result that a provider's tool gave in an earlier answer.
std::string WordsOfProviderResult(const JsonObject& block, MessagesTools& tools);

/// `system`, without what Claude Code says of itself for bills, which differs from one of its conversations to another.
std::string WordsOfSystem(const JsonObject& body, MessagesTools& tools);

}  // namespace quire
