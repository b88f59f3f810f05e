#pragma once

#include "coordinator/api/requests/json_fields.h"

namespace quire {

/// Throws ApiError for a field that would change the answer and that this server does not offer, unless its value says
/// that it is off. What clients of other servers send is in the list; fields that nobody knows are passed over.
void RefuseUnsupportedFields(const JsonFields& fields);
/// The same for what only chats have.
void RefuseChatFields(const JsonFields& fields);

}  // namespace quire
