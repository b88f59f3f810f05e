#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Python's spelling of a number without its sign, such as 0x1F, 1_000, .5 or 5., as JSON spells the number; nothing
/// when the word is no number.
std::optional<std::string> PythonNumber(std::string_view word);

}  // namespace quire
