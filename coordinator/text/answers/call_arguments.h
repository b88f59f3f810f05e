#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Returns the arguments of a call in an earlier answer as the text of a JSON object. Empty text and null become {}.
/// Text that is no JSON object, for example because it was cut short, becomes the value of the object's only member.
std::string ObjectOfArguments(std::string_view arguments);

}  // namespace quire
