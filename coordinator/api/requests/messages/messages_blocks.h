#pragma once

#include <string>

#include "coordinator/api/requests/json_object.h"
#include "coordinator/api/requests/messages/messages_tools.h"

namespace quire {

// The functions below turn blocks of the Messages API into text. All throw ApiError, which names the member, for an
// invalid member and for content that a text model cannot read.

/// Returns the text of one block: a text, a document, a search result or a tool reference. A tool reference also makes
/// the tool available to the model.
std::string WordsOfBlock(const JsonObject& block, MessagesTools& tools);

/// Returns the text of the member `name`: a string, or a list of blocks that WordsOfBlock reads; empty when the member
/// is absent.
std::string WordsOf(const JsonObject& holder, const char* name, MessagesTools& tools);

/// Returns the text of a block of an earlier answer. The block holds the result of a tool that the provider executed.
std::string WordsOfProviderResult(const JsonObject& block, MessagesTools& tools);

/// Returns the text of `system` without Claude Code's billing line, which differs from conversation to conversation.
std::string WordsOfSystem(const JsonObject& body, MessagesTools& tools);

}  // namespace quire
