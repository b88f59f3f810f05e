#pragma once

#include "comm/base/json.h"

namespace quire {

/// Reads the messages of a chat request into Conversation's form; the role "developer" becomes "system". Throws
/// ApiError for a bad or missing (null) list, and for members that a template cannot show.
OrderedJson ReadMessages(const Json* messages);

}  // namespace quire
