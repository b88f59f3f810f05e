#pragma once

#include <string>
#include <string_view>

namespace quire {

struct Tool;

/// Returns the beginning of an argument's JSON when its bare text was cut short. Strings stay without their closing
/// quotation mark. Empty while the value's type cannot be told.
std::string CutValue(const Tool& tool, const std::string& parameter, std::string_view text);

}  // namespace quire
