#pragma once

#include <string_view>

namespace quire {

/// Returns the text of a member of a JSON object exactly as written, so that its members keep their order and its
/// numbers their digits. `object` is the object's text. Returns "" when there is no such member.
std::string_view MemberText(std::string_view object, std::string_view name);

}  // namespace quire
