#pragma once

#include <optional>
#include <string_view>

namespace quire {

/// The pattern of a `format` of JSON Schema's that answers are kept to; nothing: the word asks nothing of a text.
/// Patterns take less than the standards do: every text that one finds is of the format, but for
/// the lengths of domains.
std::optional<std::string_view> PatternOfFormat(std::string_view format);

}  // namespace quire
