#pragma once

#include <string_view>

namespace quire {

/// Returns the text of one member's value in a JSON object, exactly as written, so that members keep their order and
/// numbers keep their digits. `object` is the object's text. Returns "" when there is no such member.
std::string_view MemberText(std::string_view object, std::string_view name);

}  // namespace quire
