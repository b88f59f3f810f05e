#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

struct Tool;

/// The JSON of an argument that a model wrote as bare text: what the tool's schema says it is, or, where that says
/// nothing, JSON if the text is that; a string otherwise.
std::string TypedValue(const Tool& tool, const std::string& parameter, std::string_view text);

/// The text of a JSON object that a Python call's arguments stand for: `a=1, b=[True, None]`, without the brackets
/// around them. Literals only. Nothing when it is not that.
std::optional<std::string> PythonArguments(std::string_view text);

}  // namespace quire
