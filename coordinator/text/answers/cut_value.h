#pragma once

#include <string>
#include <string_view>

namespace quire {

struct Tool;

/// Returns the beginning of an argument's JSON when the model's text for the argument was cut short. A string has no
/// closing quotation mark. The result is empty while the value's type is not known.
std::string CutValue(const Tool& tool, const std::string& parameter, std::string_view text);

}  // namespace quire
