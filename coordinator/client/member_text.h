#pragma once

#include <string_view>

namespace quire {

/// The text of a member of an object, as it was written: its own members keep their order, and its numbers their
/// digits. object: the text of a JSON object. Empty when there is no such member.
std::string_view MemberText(std::string_view object, std::string_view name);

}  // namespace quire
