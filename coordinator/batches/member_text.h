#pragma once

#include <string_view>

namespace quire {

/// Returns the text of one member's value in a JSON object, exactly as written, so that the order of members and the
/// digits of numbers do not change. `object` is the object's text. Returns "" when there is no such member.
std::string_view MemberText(std::string_view object, std::string_view name);

}  // namespace quire
