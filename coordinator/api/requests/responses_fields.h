#pragma once

#include <string_view>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// Returns the names of all fields that a body of /v1/responses may have, even if only some values are accepted.
std::vector<std::string_view> ResponsesFieldNames();

/// True for a field that this server reads, copies to the chat request, or ignores whatever the field's value is.
bool IsReadByResponses(std::string_view name);

/// True when a field for which IsReadByResponses() is false has a value that changes nothing on this server.
bool AsksForNothing(std::string_view name, const OrderedJson& value);

}  // namespace quire
