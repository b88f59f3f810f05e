#pragma once

#include <optional>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

/// True when `type` is `family`, an underscore and a date, such as bash_20250124 for "bash".
bool IsOfFamily(std::string_view type, std::string_view family);

/// Returns {"description", "parameters"}, as in OpenAI's function object, for a tool that Anthropic defines and the
/// client executes: bash, text_editor or memory. Returns nullopt for other types.
std::optional<OrderedJson> ClientToolOf(std::string_view type);

}  // namespace quire
