#pragma once

#include <string_view>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// The names of all fields that a body of /v1/responses may have, also if only some of their values are accepted.
std::vector<std::string_view> ResponsesFieldNames();

/// True for a field that is read, passed on to the chat request, or ignored whatever its value.
bool IsReadByResponses(std::string_view name);

/// True for one of the other fields, with a value that changes nothing here.
bool AsksForNothing(std::string_view name, const OrderedJson& value);

}  // namespace quire
