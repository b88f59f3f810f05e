#pragma once

#include <string_view>
#include <vector>

#include "coordinator/api/requests/json_fields.h"

namespace quire {

/// Throws ApiError for an unsupported field, unless its value means "off" or equals this server's behaviour. The list
/// covers the fields that clients of other servers send.
void RefuseUnsupportedFields(const JsonFields& fields);
/// Throws ApiError for a field that only chat requests support, unless its value means "off".
void RefuseChatFields(const JsonFields& fields);
/// True for a field that RefuseUnsupportedFields() handles, with a value that it accepts.
bool ChangesNothing(std::string_view name, const Json& value);
/// Returns the names of all fields that RefuseUnsupportedFields() handles.
std::vector<std::string_view> UnsupportedFieldNames();

}  // namespace quire
