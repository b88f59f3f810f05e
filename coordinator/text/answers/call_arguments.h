#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Arguments of a call in an earlier answer as the text of a JSON object, whatever their client sent: none and null are
/// no arguments, and a text that is no object, such as one that was cut, is the object's only member.
std::string ObjectOfArguments(std::string_view arguments);

}  // namespace quire
