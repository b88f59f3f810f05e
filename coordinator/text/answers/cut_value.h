#pragma once

#include <string>
#include <string_view>

namespace quire {

struct Tool;

/// The beginning of the JSON of an argument whose bare text was cut: text of strings without the quotation mark that
/// would end them. Empty where nothing can be said of the value yet.
std::string CutValue(const Tool& tool, const std::string& parameter, std::string_view text);

}  // namespace quire
