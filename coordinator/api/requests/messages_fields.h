#pragma once

#include <string_view>
#include <vector>

namespace quire {

/// Returns the names of all fields that a body of /v1/messages may have, including fields that are refused or ignored
/// by name.
std::vector<std::string_view> MessagesFieldNames();

}  // namespace quire
