#pragma once

#include <string>

#include "comm/base/json.h"

namespace quire {

/// Reads the messages of a chat request into Conversation's form; the role "developer" becomes "system". Throws
/// ApiError for a bad or missing (null) list, and for content and members that this server does not support.
OrderedJson ReadMessages(const Json* messages);

/// Checks the name of a function in a call of an earlier answer. The prompt repeats this name in each result of the
/// call, so it may be as long as a tool's name at most. Throws ApiError that names `place`.
void CheckCalledName(const std::string& name, const std::string& place);

}  // namespace quire
