#pragma once

#include <string>
#include <string_view>

namespace quire {

struct Tool;

/// The JSON of an argument that a model wrote as bare text: a value that the tool's schema accepts, found through its
/// references, alternatives and combinations. A text where a text is accepted; next to tags, blanks belong to a text
/// only where every text is. Where nothing is accepted a value of a type that is; where the schema says nothing, JSON
/// if the text is that, and a string otherwise.
std::string TypedValue(const Tool& tool, const std::string& parameter, std::string_view text);

}  // namespace quire
