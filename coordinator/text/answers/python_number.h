#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Converts Python's spelling of an unsigned number, such as 0x1F, 1_000, .5 or 5., into JSON's spelling; nullopt when
/// the word is not a number.
std::optional<std::string> PythonNumber(std::string_view word);

}  // namespace quire
