#pragma once

#include <string_view>
#include <vector>

#include "coordinator/api/requests/json_fields.h"

namespace quire {

/// Throws ApiError for a field that would change the answer and that this server does not offer, unless its value says
/// that it is off. What clients of other servers send is in the list.
void RefuseUnsupportedFields(const JsonFields& fields);
/// The same for what only chats have.
void RefuseChatFields(const JsonFields& fields);
/// What the first looks for.
std::vector<std::string_view> UnsupportedFieldNames();

}  // namespace quire
