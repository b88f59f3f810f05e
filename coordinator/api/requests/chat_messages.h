#pragma once

#include "comm/base/json.h"

namespace quire {

/// The messages of a chat request as Conversation has them; "developer" is "system". Throws ApiError for what is wrong,
/// and for what templates are not shown. null: there are none, which is wrong as well.
OrderedJson ReadMessages(const Json* messages);

}  // namespace quire
