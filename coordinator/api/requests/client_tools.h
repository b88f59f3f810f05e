#pragma once

#include <optional>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

/// Whether a tool's type is `family` with a date behind it, such as bash_20250124.
bool IsOfFamily(std::string_view type, std::string_view family);

/// Tools whose names and input Anthropic fixed and which clients run: bash, text_editor and memory. Gives
/// {"description", "parameters"}, as a function of OpenAI's form has them; nothing for other types.
std::optional<OrderedJson> ClientToolOf(std::string_view type);

}  // namespace quire
